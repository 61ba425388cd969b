"""RT-DETR (Zhao et al., 2023): a detector of queries that runs in real time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import resnet
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.deformable import Deformable
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec
from rushlight.models.layers.vision.convolutional.pyramid import HybridEncoder
from rushlight.models.layers.vision.convolutional.resnet_vd import ResNetD
from rushlight.models.layers.vision.outputs.detection import Detector, Head

ARCHITECTURES = ("RTDetrForObjectDetection",)
_LARGE = 3.4e38  # the logit of a box at the picture's border


@dataclass
class Backbone(resnet.Config):
    """The keys of backbone_config."""

    model_type: str = "rt_detr_resnet"


@dataclass
class Config:
    """The keys of config.json."""

    backbone_config: dict[str, Any] = field(default_factory=dict)
    layer_norm_eps: float = 1e-5
    batch_norm_eps: float = 1e-5
    encoder_hidden_dim: int = 256
    encoder_in_channels: list[int] = field(default_factory=lambda: [512, 1024, 2048])
    feat_strides: list[int] = field(default_factory=lambda: [8, 16, 32])
    encoder_layers: int = 1
    encoder_ffn_dim: int = 1024
    encoder_attention_heads: int = 8
    encode_proj_layers: list[int] = field(default_factory=lambda: [2])
    positional_encoding_temperature: float = 10000
    encoder_activation_function: str = "gelu"
    activation_function: str = "silu"
    eval_size: Any = None
    normalize_before: bool = False
    hidden_expansion: float = 1.0
    d_model: int = 256
    num_queries: int = 300
    decoder_in_channels: list[int] = field(default_factory=lambda: [256, 256, 256])
    decoder_ffn_dim: int = 1024
    num_feature_levels: int = 3
    decoder_n_points: int = 4
    decoder_layers: int = 6
    decoder_attention_heads: int = 8
    decoder_activation_function: str = "relu"
    learn_initial_query: bool = False
    num_denoising: int = 100
    anchor_image_size: Any = None
    use_focal_loss: bool = True
    with_box_refine: bool = True
    # Of training, and of backbones that are fetched by name:
    freeze_backbone_batch_norms: bool = True
    disable_custom_kernels: bool = True
    backbone: str | None = None
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    label_noise_ratio: float = 0.5
    box_noise_scale: float = 1.0
    initializer_bias_prior_prob: float | None = None
    matcher_alpha: float = 0.25
    matcher_gamma: float = 2.0
    matcher_class_cost: float = 2.0
    matcher_bbox_cost: float = 5.0
    matcher_giou_cost: float = 2.0
    auxiliary_loss: bool = True
    focal_loss_alpha: float = 0.75
    focal_loss_gamma: float = 2.0
    weight_loss_vfl: float = 1.0
    weight_loss_bbox: float = 5.0
    weight_loss_giou: float = 2.0
    eos_coefficient: float = 1e-4
    model_type: str = "rt_detr"


class RTDetr(Detector):
    """RT-DETR in transformers' names. Classes are independent: their scores are sigmoids."""

    independent = True

    def __init__(
        self, c: Config, seen: Backbone, taken: list[int], labels: tuple[str, ...]
    ) -> None:
        self.config, self.labels, self.taken = c, labels, taken
        self.processor = KINDS["RTDetr"]
        wide, width, count = c.encoder_hidden_dim, c.d_model, len(labels)
        put(self, "model.backbone.model", ResNetD(seen))
        for i, stage in enumerate(taken):
            put(
                self,
                f"model.encoder_input_proj.{i}",
                nn.Sequential(
                    nn.Conv2d(seen.hidden_sizes[stage - 1], wide, 1, bias=False),
                    nn.BatchNorm2d(wide),
                ),
            )
        put(self, "model.encoder", HybridEncoder(c, len(taken)))
        for i in range(c.num_feature_levels):
            has_stage = i < len(c.decoder_in_channels)
            inputs = c.decoder_in_channels[i] if has_stage else wide
            conv = (
                nn.Conv2d(inputs, width, 1, bias=False)
                if has_stage
                else nn.Conv2d(inputs, width, 3, 2, 1, bias=False)
            )
            norm = nn.BatchNorm2d(width, c.batch_norm_eps)
            put(self, f"model.decoder_input_proj.{i}", nn.Sequential(conv, norm))
        if c.num_denoising > 0:  # of training
            put(self, "model.denoising_class_embed", nn.Embedding(count + 1, width))
        if c.learn_initial_query:
            put(self, "model.weight_embedding", nn.Embedding(c.num_queries, width))
        put(
            self,
            "model.enc_output",
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width, c.layer_norm_eps)),
        )
        put(self, "model.enc_score_head", nn.Linear(width, count))
        put(self, "model.enc_bbox_head", Head(width, 4))
        spec = QuerySpec(
            width,
            c.decoder_attention_heads,
            c.decoder_ffn_dim,
            c.decoder_activation_function,
            c.layer_norm_eps,
        )
        for i in range(c.decoder_layers):
            layer = Layer(spec)
            put(
                layer,
                "encoder_attn",
                Deformable(
                    width, c.decoder_attention_heads, c.num_feature_levels, c.decoder_n_points
                ),
            )
            put(layer, "encoder_attn_layer_norm", nn.LayerNorm(width, c.layer_norm_eps))
            put(self, f"model.decoder.layers.{i}", layer)
            put(self, f"model.decoder.class_embed.{i}", nn.Linear(width, count))
            put(self, f"model.decoder.bbox_embed.{i}", Head(width, 4))
        for i, (inputs, outputs) in enumerate(((4, 2 * width), (2 * width, width))):
            put(self, f"model.decoder.query_pos_head.layers.{i}", nn.Linear(inputs, outputs))

    def hidden(self, pixels: Tensor) -> Tensor:
        """The pyramid's smallest picture (batch, channels, height, width)."""
        return self._pyramid(pixels)[-1]

    def _pyramid(self, pixels: Tensor) -> list[Tensor]:
        """The stages' pictures after the encoder, the largest first."""
        net: Any = self.model
        maps = net.backbone.model(self.checked(pixels))
        levels: list[Tensor] = net.encoder(
            [
                net.encoder_input_proj.get_submodule(str(i))(maps[stage])
                for i, stage in enumerate(self.taken)
            ]
        )
        return levels

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, queries, classes), and boxes (batch, queries, 4) from 0 to 1."""
        net: Any = self.model
        pyramid, levels = self._pyramid(pixels), []
        for i in range(self.config.num_feature_levels):
            x = pyramid[min(i, len(pyramid) - 1)]
            levels.append(net.decoder_input_proj.get_submodule(str(i))(x))
        grids = [(x.shape[2], x.shape[3]) for x in levels]
        memory = cat([x.flatten(2).transpose(1, 2) for x in levels], 1)
        anchors, inside = _anchors(grids, memory)
        encoded = net.enc_output(memory * inside)
        scores = net.enc_score_head(encoded).max(-1)[0]
        if scores.shape[1] < self.config.num_queries:
            raise ValueError(
                f"rt_detr: pixels {pixels.shape} have {scores.shape[1]} places; the "
                f"{self.config.num_queries} queries need a larger picture"
            )
        best = scores.topk(self.config.num_queries, 1)[1].unsqueeze(-1)
        boxes = net.enc_bbox_head(encoded) + anchors
        boxes = boxes.gather(1, best.expand(-1, -1, 4)).sigmoid()
        if self.config.learn_initial_query:
            x = net.weight_embedding.weight.unsqueeze(0).expand(len(encoded), -1, -1)
        else:
            x = encoded.gather(1, best.expand(-1, -1, encoded.shape[2]))
        first, second = net.decoder.query_pos_head.layers.children()
        logits = scores
        parts = ("layers", "class_embed", "bbox_embed")
        each = (net.decoder.get_submodule(name).children() for name in parts)
        for layer, head, box in zip(*each, strict=True):
            places = second(first(boxes).relu())
            x = layer.self_attn_layer_norm(x + layer.self_attn(x, places=places))
            seen = layer.encoder_attn(x + places, memory, boxes, grids)
            x = layer.fed(layer.encoder_attn_layer_norm(x + seen))
            boxes = (box(x) + _unsigmoid(boxes)).sigmoid()
            logits = head(x)
        return logits, boxes


def _unsigmoid(x: Tensor) -> Tensor:
    return (x.clamp(min=1e-5) / (1 - x).clamp(min=1e-5)).log()


def _anchors(grids: list[tuple[int, int]], like: Tensor) -> tuple[Tensor, Tensor]:
    """The logits (1, places, 4) of the boxes that places begin with; 1 where they are inside."""
    boxes = []
    for level, (tall, wide) in enumerate(grids):
        y = ((arange(tall, device=like.device).float() + 0.5) / tall).unsqueeze(1)
        x = ((arange(wide, device=like.device).float() + 0.5) / wide).unsqueeze(0)
        x, y = (axis.expand(tall, wide).reshape(-1, 1) for axis in (x, y))
        size = x * 0 + 0.05 * 2.0**level
        boxes.append(cat([x, y, size, size], 1))
    places = cat(boxes, 0)
    inside = ((places > 0.01).float() * (places < 0.99).float()).min(-1, keepdim=True)[0]
    clamped = places.clamp(min=0.01, max=0.99)
    logits = (clamped / (1 - clamped)).log() * inside + (1 - inside) * _LARGE
    return logits.unsqueeze(0).to(like.dtype), inside.unsqueeze(0).to(like.dtype)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> RTDetr:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    for name in (
        "encoder_activation_function",
        "activation_function",
        "decoder_activation_function",
    ):
        choose(name, getattr(c, name), tuple(ACTIVATIONS))
    choose("use_focal_loss", c.use_focal_loss, (True,))
    told = c.backbone_config
    choose("backbone_config.model_type", told.get("model_type"), ("rt_detr_resnet",))
    seen = read_config(Backbone, told | {"architectures": None})
    choose("backbone_config.layer_type", seen.layer_type, ("bottleneck", "basic"))
    count = len(seen.depths)
    taken = seen.out_indices or [2, 3, 4]
    if seen.out_features:
        known = ["stem", *(f"stage{i + 1}" for i in range(count))]
        for name in seen.out_features:
            choose("backbone_config.out_features", name, known)
        taken = [known.index(name) for name in seen.out_features]
    sizes = all(type(n) is int and 1 <= n <= count for n in taken)
    wanted = all(type(n) is int and 0 <= n < len(taken) for n in c.encode_proj_layers)
    if (
        not sizes
        or not wanted
        or count != len(seen.hidden_sizes)
        or len(taken) < 2
        or (
            c.encoder_hidden_dim % 4
            or not len(c.decoder_in_channels) <= c.num_feature_levels <= len(names)
            or len(c.decoder_in_channels) != len(taken)
        )
    ):
        raise FormatError(
            "config.json: the backbone's stages, encode_proj_layers, "
            "decoder_in_channels and num_feature_levels do not agree"
        )
    return RTDetr(c, seen, taken, labels_of(config))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of older and newer files under one set of names."""
    by_name = {}
    for name, t in tensors.items():
        if name.startswith(("class_embed.", "bbox_embed.")):  # the decoder's, once more
            continue
        name = re.sub(r"\.self_attn\.o_proj\.", ".self_attn.out_proj.", name)
        name = re.sub(r"\.mlp\.(fc[12])\.", r".\1.", name)
        by_name[name.replace("model.encoder.aifi.", "model.encoder.encoder.")] = t
    return by_name


FAMILY = Family(
    model_types=("rt_detr",),
    tasks=("object-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=("num_attention_heads",),
    rename_tensors=rename_tensors,
)
