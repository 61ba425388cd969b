"""Mask2Former (Cheng et al., 2022): queries that attend to where their masks are."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import maskformer
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.deformable import Deformable
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec, sine_places
from rushlight.models.layers.vision.attention.swin import Swin
from rushlight.models.layers.vision.outputs.masks import QueryMasks
from rushlight.models.layers.vision.outputs.stages import put_norms
from rushlight.models.layers.vision.resnet import stages
from rushlight.models.layers.vision.transformer import put_parameter

ARCHITECTURES = ("Mask2FormerForUniversalSegmentation",)
_ENCODER = "model.pixel_level_module.encoder"
_LEVELS, _POINTS, _GROUPS = 3, 4, 32


@dataclass
class Config:
    """The keys of config.json."""

    backbone_config: dict[str, Any]
    feature_size: int = 256
    mask_feature_size: int = 256
    hidden_dim: int = 256
    encoder_feedforward_dim: int = 1024
    activation_function: str = "relu"
    encoder_layers: int = 6
    decoder_layers: int = 10  # one more than there are
    num_attention_heads: int = 8
    dim_feedforward: int = 2048
    pre_norm: bool = False
    enforce_input_projection: bool = False
    common_stride: int = 4
    num_queries: int = 100
    feature_strides: list[int] = field(default_factory=lambda: [4, 8, 16, 32])
    # Of training, and of backbones that are fetched by name:
    num_hidden_layers: int | None = None
    ignore_value: int = 255
    no_object_weight: float = 0.1
    class_weight: float = 2.0
    mask_weight: float = 5.0
    dice_weight: float = 5.0
    train_num_points: int = 12544
    oversample_ratio: float = 3.0
    importance_sample_ratio: float = 0.75
    init_xavier_std: float = 1.0
    use_auxiliary_loss: bool = True
    output_auxiliary_logits: bool | None = None
    backbone: str | None = None
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    model_type: str = "mask2former"


class _Layer(nn.Module):
    """A query sees its mask's places of one level, then the other queries."""

    def __init__(self, spec: QuerySpec) -> None:
        layer = Layer(spec)
        self.self_attn, self.self_attn_layer_norm = layer.self_attn, layer.self_attn_layer_norm
        self.cross_attn = nn.MultiheadAttention(spec.width, spec.heads, batch_first=True)
        self.cross_attn_layer_norm = nn.LayerNorm(spec.width)
        self.fc1, self.fc2, self.final_layer_norm = layer.fc1, layer.fc2, layer.final_layer_norm
        self.act = ACTIVATIONS[spec.act]

    def forward(
        self, x: Tensor, asked: Tensor, memory: Tensor, places: Tensor, hidden: Tensor
    ) -> Tensor:
        """hidden (batch * heads, queries, places): true where a query does not look."""
        seen, _ = self.cross_attn(
            x + asked, memory + places, memory, need_weights=False, attn_mask=hidden
        )
        x = self.cross_attn_layer_norm(x + seen)
        x = self.self_attn_layer_norm(x + self.self_attn(x, places=asked))
        out: Tensor = self.final_layer_norm(x + self.fc2(self.act(self.fc1(x))))
        return out


def _normed(inputs: int, outputs: int, kernel: int, bias: bool) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=bias),
        nn.GroupNorm(_GROUPS, outputs),
    ]


class Mask2Former(QueryMasks):
    """Mask2Former in transformers' names."""

    scaled = (384, 384)  # of every checkpoint's masks, as the published processor has it

    def __init__(
        self, c: Config, seen: Any, wanted: list[int], fine: int, labels: tuple[str, ...]
    ) -> None:
        self.config, self.labels, self.wanted, self.fine = c, labels, wanted, fine
        self.processor, self.channels = KINDS["Mask2Former"], seen.config.num_channels
        self.swin, size, width = isinstance(seen, Swin), c.feature_size, c.hidden_dim
        if self.swin:
            put(self, _ENCODER, seen)
            inner = [0, *(stage.width for stage in seen.spec.stages)]
            put_norms(seen, wanted, inner)
        else:
            put(self, _ENCODER, seen.get_submodule("resnet"))
            inner = [seen.config.embedding_size, *seen.config.hidden_sizes]
        widths = [inner[i] for i in wanted]
        base = "model.pixel_level_module.decoder"
        for i, inputs in enumerate(widths[: -_LEVELS - 1 : -1]):
            put(
                self,
                f"{base}.input_projections.{i}",
                nn.Sequential(*_normed(inputs, size, 1, True)),
            )
        put_parameter(self, f"{base}.level_embed", _LEVELS, size)
        spec = QuerySpec(size, c.num_attention_heads, c.encoder_feedforward_dim)
        for i in range(c.encoder_layers):
            layer = Layer(spec)
            put(layer, "self_attn", Deformable(size, c.num_attention_heads, _LEVELS, _POINTS))
            put(self, f"{base}.encoder.layers.{i}", layer)
        for i in range(fine):
            put(self, f"{base}.adapter_{i + 1}", nn.Sequential(*_normed(widths[i], size, 1, False)))
            put(
                self,
                f"{base}.layer_{i + 1}",
                nn.Sequential(*_normed(size, size, 3, False), nn.ReLU()),
            )
        put(self, f"{base}.mask_projection", nn.Conv2d(size, c.mask_feature_size, 1))
        base = "model.transformer_module"
        for name, count in (
            ("queries_embedder", c.num_queries),
            ("level_embed", _LEVELS),
            ("queries_features", c.num_queries),
        ):
            put(self, f"{base}.{name}", nn.Embedding(count, width))
        self.projects = size != width or c.enforce_input_projection
        for i in range(_LEVELS if self.projects else 0):
            put(self, f"{base}.input_projections.{i}", nn.Conv2d(size, width, 1))
        spec = QuerySpec(width, c.num_attention_heads, c.dim_feedforward, c.activation_function)
        for i in range(c.decoder_layers - 1):
            put(self, f"{base}.decoder.layers.{i}", _Layer(spec))
        put(self, f"{base}.decoder.layernorm", nn.LayerNorm(width))
        for i, outputs in enumerate((width, width, c.mask_feature_size)):
            put(
                self,
                f"{base}.decoder.mask_predictor.mask_embedder.{i}.0",
                nn.Linear(width, outputs),
            )
        self.class_predictor = nn.Linear(width, len(labels) + 1)

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What the backbone's stages make, (batch, channels, height, width) each."""
        x, net = self.checked(pixels, self.channels), self.get_submodule(_ENCODER)
        if not self.swin:
            maps = stages(net, x)
            return [maps[i] for i in self.wanted]
        swin: Any = net
        feature_maps: list[Tensor] = swin.feature_maps(x)
        return feature_maps

    def hidden(self, pixels: Tensor) -> Tensor:
        """The finest map (batch, channels, height, width), which masks are made of."""
        return self._pyramid(self.maps(pixels))[1]

    def _pyramid(self, maps: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Maps of three levels, the smallest first, and the one of the masks."""
        net: Any = self.get_submodule("model.pixel_level_module.decoder")
        flat, places, middles = [], [], []
        levels = [
            net.input_projections.get_submodule(str(i))(x)
            for i, x in enumerate(maps[: -_LEVELS - 1 : -1])
        ]
        grids = [(x.shape[2], x.shape[3]) for x in levels]
        for i, (x, grid) in enumerate(zip(levels, grids, strict=True)):
            flat.append(x.flatten(2).transpose(1, 2))
            places.append(sine_places(grid, x.shape[1], x) + net.level_embed[i])
            down, across = ((arange(n, device=x.device).float() + 0.5) / n for n in grid)
            middles.append(
                cat(
                    [
                        across.unsqueeze(0).expand(*grid).reshape(-1, 1),
                        down.unsqueeze(1).expand(*grid).reshape(-1, 1),
                    ],
                    1,
                )
            )
        x, added = cat(flat, 1), cat(places, 1)
        centers = cat(middles, 0).unsqueeze(0).to(x.dtype)
        for layer in net.encoder.layers.children():
            x = layer.self_attn_layer_norm(x + layer.self_attn(x + added, x, centers, grids))
            x = layer.fed(x)
        pyramid, start = [], 0
        for tall, wide in grids:
            level_tokens = x[:, start : start + tall * wide].transpose(1, 2)
            pyramid.append(level_tokens.reshape(len(x), -1, tall, wide))
            start += tall * wide
        last = pyramid[-1]
        for i in reversed(range(self.fine)):
            side = net.get_submodule(f"adapter_{i + 1}")(maps[i])
            large = interpolate(last, size=side.shape[2:], mode="bilinear")
            last = net.get_submodule(f"layer_{i + 1}")(side + large)
        return pyramid, net.mask_projection(last)

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        levels, fine = self._pyramid(self.maps(pixels))
        net: Any = self.get_submodule("model.transformer_module")
        memories, places = [], []
        for i, x in enumerate(levels):
            projected = net.input_projections.get_submodule(str(i))(x) if self.projects else x
            memories.append(projected.flatten(2).transpose(1, 2) + net.level_embed.weight[i])
            places.append(sine_places((x.shape[2], x.shape[3]), projected.shape[1], projected))
        batch, width = len(fine), self.config.hidden_dim
        asked = net.queries_embedder.weight.unsqueeze(0)
        x = net.queries_features.weight.unsqueeze(0).expand(batch, -1, width)
        normed = net.decoder.layernorm(x)
        masks = self._masks(normed, fine)
        layers = net.decoder.layers.children() if self.config.decoder_layers > 1 else ()
        for i, layer in enumerate(layers):
            level = i % _LEVELS
            hidden = self._hidden(masks, levels[level])
            x = layer(x, asked, memories[level], places[level], hidden)
            normed = net.decoder.layernorm(x)
            masks = self._masks(normed, fine)
        return self.class_predictor(normed), masks

    def _masks(self, x: Tensor, fine: Tensor) -> Tensor:
        base = "model.transformer_module.decoder.mask_predictor.mask_embedder"
        for i in range(3):
            x = self.get_submodule(f"{base}.{i}.0")(relu(x) if i else x)
        return (x @ fine.flatten(2)).reshape(len(x), -1, *fine.shape[2:])

    def _hidden(self, masks: Tensor, level: Tensor) -> Tensor:
        """Where queries do not look: outside of their masks, unless nothing is within."""
        small = interpolate(masks, size=level.shape[2:], mode="bilinear").flatten(2)
        inside = (small.sigmoid() >= 0.5).to(small.dtype)
        none = (inside.sum(-1, keepdim=True) == 0).to(small.dtype)
        hidden = (inside + none == 0).unsqueeze(1)
        heads = self.config.num_attention_heads
        return hidden.expand(-1, heads, -1, -1).reshape(-1, *small.shape[1:])


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Mask2Former:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("activation_function", c.activation_function, tuple(ACTIVATIONS))
    choose("pre_norm", c.pre_norm, (False,))
    choose("backbone", c.backbone, (None,))
    if not isinstance(c.backbone_config, dict):
        raise FormatError("config.json: backbone_config must be an object")
    seen, wanted = maskformer.backbone_of(c.backbone_config, swin_stages=True)
    if isinstance(seen, Swin):
        seen.spec = replace(seen.spec, last=False)
        del seen.layernorm
    strides = c.feature_strides[-_LEVELS:]
    strides_fit = all(type(n) is int and n >= 1 for n in strides) and c.common_stride >= 1
    fine = (
        int(math.log2(min(strides)) - math.log2(c.common_stride)) if strides_fit and strides else -1
    )
    if (
        len(wanted) < _LEVELS
        or not 0 <= fine <= len(wanted)
        or c.feature_size % _GROUPS
        or (
            c.hidden_dim % 4
            or not 1 <= c.num_queries <= 1 << 16
            or min(c.encoder_layers, c.decoder_layers) < 1
        )
    ):
        raise FormatError(
            f"config.json: the backbone's stages {wanted}, feature_strides {c.feature_strides}, "
            f"feature_size {c.feature_size}, hidden_dim {c.hidden_dim}, num_queries or "
            "the numbers of layers do not agree; there are at least 3 stages and norms of 32 groups"
        )
    return Mask2Former(c, seen, wanted, fine, labels_of(config))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of newer files under the names of the published ones."""
    return {n.replace(f"{_ENCODER}.swin.", f"{_ENCODER}."): t for n, t in tensors.items()}


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is computed, of training, or of a norm that nothing reads."""
    norm = name.startswith(f"{_ENCODER}.layernorm.")
    return norm or maskformer.unused(name, config)


FAMILY = Family(
    model_types=("mask2former",),
    tasks=("image-segmentation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=unused,
)
