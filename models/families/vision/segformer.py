"""SegFormer (Xie et al., 2021): attention over fewer and fewer places, and a head of MLPs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, classes_of

SEGMENTING = "SegformerForSemanticSegmentation"
_STAGE = re.compile(r"^segformer\.stages\.(\d)\.(patch_embeddings|blocks|layer_norm)\.")
_PARTS = {
    "attention.q_proj": "attention.self.query",
    "attention.k_proj": "attention.self.key",
    "attention.v_proj": "attention.self.value",
    "attention.o_proj": "attention.output.dense",
    "attention.sequence_reduction.sequence_reduction": "attention.self.sr",
    "attention.sequence_reduction.layer_norm": "attention.self.layer_norm",
    "layernorm_before": "layer_norm_1",
    "layernorm_after": "layer_norm_2",
    "mlp.fc1": "mlp.dense1",
    "mlp.fc2": "mlp.dense2",
}
_LISTS = (
    "depths",
    "sr_ratios",
    "hidden_sizes",
    "patch_sizes",
    "strides",
    "num_attention_heads",
    "mlp_ratios",
)


@dataclass
class Config:
    """The keys of config.json."""

    num_channels: int = 3
    num_encoder_blocks: int = 4
    depths: list[int] = field(default_factory=lambda: [2, 2, 2, 2])
    sr_ratios: list[int] = field(default_factory=lambda: [8, 4, 2, 1])
    hidden_sizes: list[int] = field(default_factory=lambda: [32, 64, 160, 256])
    patch_sizes: list[int] = field(default_factory=lambda: [7, 3, 3, 3])
    strides: list[int] = field(default_factory=lambda: [4, 2, 2, 2])
    num_attention_heads: list[int] = field(default_factory=lambda: [1, 2, 5, 8])
    mlp_ratios: list[float] = field(default_factory=lambda: [4, 4, 4, 4])
    hidden_act: str = "gelu"
    classifier_dropout_prob: float = 0.1
    drop_path_rate: float = 0.1
    layer_norm_eps: float = 1e-6  # which its norms do not read
    decoder_hidden_size: int = 256
    semantic_loss_ignore_index: int = 255
    reshape_last_stage: bool = True
    model_type: str = "segformer"


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, ratio: int, inner: int, act: str) -> None:
        if heads < 1 or width % heads:
            raise FormatError(
                f"config.json: {width} channels do not fit {heads} num_attention_heads"
            )
        self.heads, self.act, self.ratio = heads, ACTIVATIONS[act], ratio
        self.layer_norm_1, self.layer_norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        for name in ("query", "key", "value"):
            put(self, f"attention.self.{name}", nn.Linear(width, width))
        put(self, "attention.output.dense", nn.Linear(width, width))
        if ratio > 1:
            put(self, "attention.self.sr", nn.Conv2d(width, width, ratio, ratio))
            put(self, "attention.self.layer_norm", nn.LayerNorm(width))
        put(self, "mlp.dense1", nn.Linear(width, inner))
        put(self, "mlp.dwconv.dwconv", nn.Conv2d(inner, inner, 3, 1, 1, groups=inner))
        put(self, "mlp.dense2", nn.Linear(inner, width))

    def forward(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        """x (batch, places, width) of a grid."""
        x = x + self._attention(self.layer_norm_1(x), grid)
        mlp: Any = self.get_submodule("mlp")
        y = mlp.dense1(self.layer_norm_2(x))
        y = y.transpose(1, 2).reshape(len(x), -1, *grid)
        y = self.act(mlp.dwconv.dwconv(y).flatten(2).transpose(1, 2))
        out: Tensor = mlp.dense2(y)
        return x + out

    def _attention(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        attention: Any = self.get_submodule("attention.self")
        batch, count, width = x.shape
        fewer = x
        if self.ratio > 1:
            fewer = attention.sr(x.transpose(1, 2).reshape(batch, width, *grid))
            fewer = attention.layer_norm(fewer.flatten(2).transpose(1, 2))
        q, k, v = (
            layer(source).reshape(batch, source.shape[1], self.heads, -1).transpose(1, 2)
            for layer, source in (
                (attention.query, x),
                (attention.key, fewer),
                (attention.value, fewer),
            )
        )
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, count, width)
        projected: Tensor = self.get_submodule("attention.output.dense")(seen)
        return projected


class Segformer(ImageModel):
    """SegFormer in transformers' names: classes of a picture, or of its places (`segments`)."""

    base = "segformer"

    def __init__(self, c: Config, labels: tuple[str, ...], segments: bool) -> None:
        self.config, self.labels, self.segments = c, labels, segments
        self.processor = KINDS["Segformer"]
        before, base = c.num_channels, f"{self.base}.encoder."
        for i, width in enumerate(c.hidden_sizes):
            k = c.patch_sizes[i]
            conv = nn.Conv2d(before, width, k, c.strides[i], k // 2)
            put(self, f"{base}patch_embeddings.{i}.proj", conv)
            put(self, f"{base}patch_embeddings.{i}.layer_norm", nn.LayerNorm(width))
            layers = [
                _Layer(
                    width,
                    c.num_attention_heads[i],
                    c.sr_ratios[i],
                    int(width * c.mlp_ratios[i]),
                    c.hidden_act,
                )
                for _ in range(c.depths[i])
            ]
            put(self, f"{base}block.{i}", nn.ModuleList(layers))
            put(self, f"{base}layer_norm.{i}", nn.LayerNorm(width))
            before = width
        if segments:
            wide = c.decoder_hidden_size
            for i, width in enumerate(c.hidden_sizes):
                put(self, f"decode_head.linear_c.{i}.proj", nn.Linear(width, wide))
            count = len(c.hidden_sizes)
            put(self, "decode_head.linear_fuse", nn.Conv2d(count * wide, wide, 1, bias=False))
            put(self, "decode_head.batch_norm", nn.BatchNorm2d(wide))
            put(self, "decode_head.classifier", nn.Conv2d(wide, len(labels), 1))
        elif labels:
            self.classifier = nn.Linear(before, len(labels))

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What each stage makes (batch, channels, height, width), after its norm."""
        base: Any = self.get_submodule(f"{self.base}.encoder")
        x, maps = self.checked(pixels, self.config.num_channels), []
        stages = (
            base.get_submodule(n).children() for n in ("patch_embeddings", "block", "layer_norm")
        )
        for patches, layers, norm in zip(*stages, strict=True):
            x = patches.get_submodule("proj")(x)
            grid = x.shape[2], x.shape[3]
            x = patches.get_submodule("layer_norm")(x.flatten(2).transpose(1, 2))
            for layer in layers.children():
                x = layer(x, grid)
            x = norm(x).transpose(1, 2).reshape(len(x), -1, *grid)
            maps.append(x)
        return maps

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.maps(pixels)[-1]

    def forward(self, pixels: Tensor) -> Tensor:
        if not self.segments:
            return super().forward(pixels)
        head: Any = self.get_submodule("decode_head")
        maps, parts = self.maps(pixels), []
        for x, layer in zip(maps, head.linear_c.children(), strict=True):
            projected = layer.get_submodule("proj")(x.flatten(2).transpose(1, 2)).transpose(1, 2)
            projected = projected.reshape(len(x), -1, *x.shape[2:])
            parts.append(interpolate(projected, size=maps[0].shape[2:], mode="bilinear"))
        x = head.batch_norm(head.linear_fuse(cat(parts[::-1], 1))).relu()
        logits: Tensor = head.classifier(x)
        return logits


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Segformer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    checked(c)
    segments = config.get("architectures") == [SEGMENTING]
    labels = labels_of(config) if segments else classes_of(config, "Segformer")
    if not labels:  # what a head reads is of the same shape
        choose("reshape_last_stage", c.reshape_last_stage, (True,))
    model = Segformer(c, labels, segments)
    if segments:
        model.tasks = ("image-segmentation",)
    return model


def checked(c: Config) -> None:
    """Cut lists to what is read; FormatError for those that do not fit."""
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    for key in _LISTS:  # longer lists, as the defaults may be, have more than is read
        sizes = getattr(c, key)[: c.num_encoder_blocks]
        good = all(isinstance(n, int | float) and n > 0 for n in sizes)
        if not good or len(sizes) != c.num_encoder_blocks:
            raise FormatError(
                f"config.json: {key} does not have num_encoder_blocks "
                f"{c.num_encoder_blocks} positive numbers"
            )
        setattr(c, key, sizes)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of newer files under the names of the published ones."""
    by_name = {}
    for name, t in tensors.items():
        name = name.replace("decode_head.linear_projections.", "decode_head.linear_c.")
        if match := _STAGE.match(name):
            kind = "block" if match[2] == "blocks" else match[2]
            rest = name[match.end() :]
            name = f"segformer.encoder.{kind}.{match[1]}.{rest}"
            for new, old in _PARTS.items():
                name = name.replace(f".{new}.", f".{old}.")
        by_name[name] = t
    return by_name


FAMILY = Family(
    model_types=("segformer",),
    tasks=("image-classification", "image-segmentation", "image-feature-extraction"),
    base_prefix="segformer.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
