"""RT-DETR (Zhao et al., 2023) and version 2 (Lv et al., 2024): a detector in real time."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import resnet
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.deformable import Deformable, anchors_of, unsigmoid
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec
from rushlight.models.layers.vision.convolutional.pyramid import HybridEncoder
from rushlight.models.layers.vision.convolutional.resnet_vd import ResNetD
from rushlight.models.layers.vision.outputs.detection import Detector, Head

ARCHITECTURES = ("RTDetrForObjectDetection", "RTDetrV2ForObjectDetection")


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


@dataclass
class Second(Config):
    """The keys of version 2's config.json."""

    decoder_n_levels: int = 3
    decoder_offset_scale: float = 0.5
    decoder_method: str = "default"
    model_type: str = "rt_detr_v2"


class RTDetr(Detector):
    """RT-DETR in transformers' names. Classes are independent: their scores are sigmoids."""

    independent = True

    def __init__(
        self,
        c: Any,
        backbone: nn.Module,
        widths: Sequence[int],
        taken: list[int],
        labels: tuple[str, ...],
    ) -> None:
        self.config, self.labels, self.taken = c, labels, taken
        self.processor = KINDS["RTDetr"]
        self.bare = hasattr(c, "depth_mult") and c.d_model == c.decoder_in_channels[-1]
        wide, width, count = c.encoder_hidden_dim, c.d_model, len(labels)
        put(self, "model.backbone.model", backbone)
        for i, stage in enumerate(taken):
            put(
                self,
                f"model.encoder_input_proj.{i}",
                nn.Sequential(
                    nn.Conv2d(widths[stage - 1], wide, 1, bias=False),
                    nn.BatchNorm2d(wide),
                ),
            )
        put(self, "model.encoder", HybridEncoder(c, len(taken)))
        for i in range(c.num_feature_levels):
            has_stage = i < len(c.decoder_in_channels)
            inputs = c.decoder_in_channels[i] if has_stage else wide
            if self.bare:
                put(self, f"model.decoder_input_proj.{i}", nn.Identity())
                continue
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
        for i, (inputs, outputs) in enumerate(((4, 2 * width), (2 * width, width))):
            put(self, f"model.decoder.query_pos_head.layers.{i}", nn.Linear(inputs, outputs))
        for i in range(c.decoder_layers):
            put(self, f"model.decoder.class_embed.{i}", nn.Linear(width, count))
        self.make_decoder(c)

    def reader(self, c: Any, plain: bool = False) -> Deformable:
        """What a layer of the decoder reads the encoder's states with."""
        return Deformable(
            c.d_model,
            c.decoder_attention_heads,
            c.num_feature_levels,
            c.decoder_n_points,
            getattr(c, "decoder_offset_scale", 0.5),
            getattr(c, "decoder_method", "default") == "discrete",
            plain,
        )

    def make_decoder(self, c: Any) -> None:
        """Give the model its decoder's layers, and what moves their boxes."""
        width = c.d_model
        spec = QuerySpec(
            width,
            c.decoder_attention_heads,
            c.decoder_ffn_dim,
            c.decoder_activation_function,
            c.layer_norm_eps,
        )
        for i in range(c.decoder_layers):
            layer = Layer(spec)
            put(layer, "encoder_attn", self.reader(c))
            put(layer, "encoder_attn_layer_norm", nn.LayerNorm(width, c.layer_norm_eps))
            put(self, f"model.decoder.layers.{i}", layer)
            put(self, f"model.decoder.bbox_embed.{i}", Head(width, 4))

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
        anchors, inside = anchors_of(grids, memory)
        encoded = net.enc_output(memory * inside)
        scores = net.enc_score_head(encoded).max(-1)[0]
        if scores.shape[1] < self.config.num_queries:
            raise ValueError(
                f"{self.config.model_type}: pixels {pixels.shape} have {scores.shape[1]} places; "
                f"the {self.config.num_queries} queries need a larger picture"
            )
        best = scores.topk(self.config.num_queries, 1)[1].unsqueeze(-1)
        boxes = net.enc_bbox_head(encoded) + anchors
        boxes = boxes.gather(1, best.expand(-1, -1, 4)).sigmoid()
        if self.config.learn_initial_query:
            x = net.weight_embedding.weight.unsqueeze(0).expand(len(encoded), -1, -1)
        else:
            x = encoded.gather(1, best.expand(-1, -1, encoded.shape[2]))
        return self.decode(x, boxes, memory, grids)

    def placed(self, boxes: Tensor) -> Tensor:
        """The places of queries (batch, queries, width) that have these boxes."""
        first, second = self.get_submodule("model.decoder.query_pos_head.layers").children()
        made: Tensor = second(first(boxes).relu())
        return made

    def decode(
        self, x: Tensor, boxes: Tensor, memory: Tensor, grids: list[tuple[int, int]]
    ) -> tuple[Tensor, Tensor]:
        """Logits and boxes of queries x (batch, queries, width) that begin with `boxes`.

        memory: what they look at, of maps with sides `grids`, one after another. It raises nothing.
        """
        net: Any = self.model
        logits = x
        parts = ("layers", "class_embed", "bbox_embed")
        each = (net.decoder.get_submodule(name).children() for name in parts)
        for layer, head, box in zip(*each, strict=True):
            places = self.placed(boxes)
            x = layer.self_attn_layer_norm(x + layer.self_attn(x, places=places))
            seen = layer.encoder_attn(x + places, memory, boxes, grids)
            x = layer.fed(layer.encoder_attn_layer_norm(x + seen))
            boxes = (box(x) + unsigmoid(boxes)).sigmoid()
            logits = head(x)
        return logits, boxes


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> RTDetr:
    """The model of a checkpoint with these tensor names, on the meta device."""
    second = config.get("model_type") == "rt_detr_v2"
    c: Any = read_config(Second if second else Config, config, (ARCHITECTURES[second],))
    if second:
        choose("decoder_n_levels", c.decoder_n_levels, (c.num_feature_levels,))
    told = c.backbone_config
    choose("backbone_config.model_type", told.get("model_type"), ("rt_detr_resnet",))
    seen = read_config(Backbone, told | {"architectures": None})
    choose("backbone_config.layer_type", seen.layer_type, ("bottleneck", "basic"))
    if len(seen.depths) != len(seen.hidden_sizes):
        raise FormatError("config.json: depths and hidden_sizes of the backbone do not agree")
    taken = checked(c, seen, len(names))
    return RTDetr(c, ResNetD(seen), seen.hidden_sizes, taken, labels_of(config))


def checked(c: Any, seen: Any, most: int) -> list[int]:
    """The stages that are taken of a backbone; FormatError for what does not fit.

    most: levels of pictures.
    """
    for name in (
        "encoder_activation_function",
        "activation_function",
        "decoder_activation_function",
    ):
        choose(name, getattr(c, name), tuple(ACTIVATIONS))
    choose("use_focal_loss", c.use_focal_loss, (True,))
    choose("decoder_method", getattr(c, "decoder_method", "default"), ("default", "discrete"))
    count = len(seen.hidden_sizes)
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
        or len(taken) < 2
        or (
            c.encoder_hidden_dim % 4
            or not len(c.decoder_in_channels) <= c.num_feature_levels <= most
            or len(c.decoder_in_channels) != len(taken)
        )
    ):
        raise FormatError(
            "config.json: the backbone's stages, encode_proj_layers, "
            "decoder_in_channels and num_feature_levels do not agree"
        )
    return taken


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of older and newer files under one set of names."""
    by_name = {}
    for name, t in tensors.items():
        if name.startswith(("class_embed.", "bbox_embed.")):  # the decoder's, once more
            continue
        name = re.sub(r"\.self_attn\.o_proj\.", ".self_attn.out_proj.", name)
        name = re.sub(r"\.mlp\.(fc[12])\.", r".\1.", name)
        if name.endswith("points_scale"):
            continue
        by_name[name.replace("model.encoder.aifi.", "model.encoder.encoder.")] = t
    return by_name


FAMILY = Family(
    model_types=("rt_detr", "rt_detr_v2"),
    tasks=("object-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=("num_attention_heads",),
    rename_tensors=rename_tensors,
)
