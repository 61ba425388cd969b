"""PVT (Wang et al., 2021) and version 2 (Wang et al., 2022): attention to smaller maps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.pooling import adaptive_avg_pool2d
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.transformer import put_parameter

BASES = {"pvt": "Pvt", "pvt_v2": "PvtV2"}
_POOLED = 7  # places of a side that linear attention sees
_LISTS = ("depths", "hidden_sizes", "patch_sizes", "strides", "num_attention_heads", "mlp_ratios")


def _four(*numbers: float) -> Any:
    return field(default_factory=lambda: list(numbers))


@dataclass
class Config:
    """The keys of config.json."""

    image_size: Any = 224
    num_channels: int = 3
    num_encoder_blocks: int = 4
    depths: list[int] = _four(2, 2, 2, 2)
    sequence_reduction_ratios: list[int] = _four(8, 4, 2, 1)
    hidden_sizes: list[int] = _four(64, 128, 320, 512)
    patch_sizes: list[int] = _four(4, 2, 2, 2)
    strides: list[int] = _four(4, 2, 2, 2)
    num_attention_heads: list[int] = _four(1, 2, 5, 8)
    mlp_ratios: list[float] = _four(8, 8, 4, 4)
    hidden_act: str = "gelu"
    drop_path_rate: float = 0.0  # of training
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    model_type: str = "pvt"


@dataclass
class Second(Config):
    """The keys of version 2's config.json."""

    sr_ratios: list[int] = _four(8, 4, 2, 1)
    linear_attention: bool = False
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    model_type: str = "pvt_v2"


class _Layer(nn.Module):
    """Attention to a smaller map and an MLP, which has a convolution in version 2."""

    def __init__(self, c: Config, stage: int, fewer: int, linear: bool) -> None:
        width, heads = c.hidden_sizes[stage], c.num_attention_heads[stage]
        if heads < 1 or width % heads:
            raise FormatError(f"config.json: {width} channels do not fit {heads} heads")
        self.second, self.heads, self.linear = c.model_type == "pvt_v2", heads, linear
        self.act, eps, inner = (
            ACTIVATIONS[c.hidden_act],
            c.layer_norm_eps,
            int(width * c.mlp_ratios[stage]),
        )
        own = "attention." if self.second else "attention.self."
        self.own, self.out = own[:-1], own + "proj" if self.second else "attention.output.dense"
        for name in ("query", "key", "value"):
            put(self, own + name, nn.Linear(width, width, c.qkv_bias))
        put(self, self.out, nn.Linear(width, width))
        self.smaller = linear or fewer > 1
        name = "spatial_reduction" if self.second else "sequence_reduction"
        self.reduced = f"{self.own}.{name}"
        if self.smaller:
            step = 1 if linear else fewer
            put(self, self.reduced, nn.Conv2d(width, width, step, step))
            put(self, f"{self.own}.layer_norm", nn.LayerNorm(width, eps))
        for i in (1, 2):
            put(self, f"layer_norm_{i}", nn.LayerNorm(width, eps))
        put(self, "mlp.dense1", nn.Linear(width, inner))
        put(self, "mlp.dense2", nn.Linear(inner, width))
        if self.second:
            put(self, "mlp.dwconv.dwconv", nn.Conv2d(inner, inner, 3, 1, 1, groups=inner))

    def forward(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        """x (batch, tokens, width) of a grid; without version 2 a class token may be before it."""
        of = self.get_submodule
        x = x + self._attended(of("layer_norm_1")(x), grid)
        y = of("mlp.dense1")(of("layer_norm_2")(x))
        if self.second:
            y = (y.relu() if self.linear else y).transpose(1, 2).unflatten(2, grid)
            y = of("mlp.dwconv.dwconv")(y).flatten(2).transpose(1, 2)
        fed: Tensor = of("mlp.dense2")(self.act(y))
        return x + fed

    def _attended(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        net: Any = self.get_submodule(self.own)
        seen = x
        if self.smaller:
            # With a class token the last place is left out, as in the published code.
            picture = x.transpose(1, 2).reshape(len(x), -1, *grid)
            picture = adaptive_avg_pool2d(picture, _POOLED) if self.linear else picture
            picture = self.get_submodule(self.reduced)(picture)
            seen = net.layer_norm(picture.flatten(2).transpose(1, 2))
            seen = ACTIVATIONS["gelu"](seen) if self.linear else seen
        q, k, v = (
            layer(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, t in ((net.query, x), (net.key, seen), (net.value, seen))
        )
        made = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        projected: Tensor = self.get_submodule(self.out)(made)
        return projected


class Pvt(ImageModel):
    """PVT in transformers' names."""

    def __init__(self, c: Any, labels: tuple[str, ...], last: int) -> None:
        self.config, self.labels, self.last = c, labels, last
        self.second, base = c.model_type == "pvt_v2", f"{c.model_type}.encoder."
        before, eps = c.num_channels, c.layer_norm_eps
        self.processor = KINDS["Pvt"]
        if not self.second:  # whose positions are of this size
            self.processor = replace(self.processor, size=(c.image_size, c.image_size))
        ratios = c.sr_ratios if self.second else c.sequence_reduction_ratios
        linear = self.second and c.linear_attention
        for i, width in enumerate(c.hidden_sizes):
            stage = f"{base}layers.{i}." if self.second else base
            patches = f"{stage}patch_embedding" if self.second else f"{base}patch_embeddings.{i}"
            size, stride = c.patch_sizes[i], c.strides[i]
            conv = (
                nn.Conv2d(before, width, size, stride, size // 2)
                if self.second
                else nn.Conv2d(before, width, stride, size)  # the published code has them so
            )
            put(self, f"{patches}.{'proj' if self.second else 'projection'}", conv)
            put(self, f"{patches}.layer_norm", nn.LayerNorm(width, eps))
            if not self.second:
                end = i == c.num_encoder_blocks - 1
                side = c.image_size if i == 0 else c.image_size // 2 ** (i + 1)
                count = (side // size) ** 2 + end
                put_parameter(self, f"{patches}.position_embeddings", 1, count, width)
                if end:
                    put_parameter(self, f"{patches}.cls_token", 1, 1, width)
            layers = [_Layer(c, i, ratios[i], linear) for _ in range(c.depths[i])]
            home = f"{stage}blocks" if self.second else f"{base}block.{i}"
            put(self, home, nn.ModuleList(layers))
            if self.second:
                put(self, f"{stage}layer_norm", nn.LayerNorm(width, eps))
            before = width
        if not self.second:
            put(self, f"{base}layer_norm", nn.LayerNorm(before, eps))
        if labels:
            self.classifier = nn.Linear(before, len(labels))

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What each stage makes: maps, but of the first version's last stage normed tokens."""
        net = self.get_submodule(f"{self.config.model_type}.encoder")
        x, made = self.checked(pixels, self.config.num_channels), []
        for i in range(self.config.num_encoder_blocks):
            stage: Any = net.get_submodule(
                f"layers.{i}" if self.second else f"patch_embeddings.{i}"
            )
            patches = stage.patch_embedding if self.second else stage
            x = patches.proj(x) if self.second else patches.projection(x)
            grid = x.shape[2], x.shape[3]
            x = patches.layer_norm(x.flatten(2).transpose(1, 2))
            if not self.second:
                first = getattr(patches, "cls_token", None)
                x = x if first is None else cat([first.expand(len(x), -1, -1), x], 1)
                if x.shape[1] != patches.position_embeddings.shape[1]:
                    side = self.config.image_size
                    raise ValueError(f"pvt: pixels are {pixels.shape}; sides must be {side}")
                x = x + patches.position_embeddings
            home = stage.blocks if self.second else net.get_submodule(f"block.{i}")
            for layer in home.children():
                x = layer(x, grid)
            if self.second or i < self.config.num_encoder_blocks - 1:
                x = stage.layer_norm(x) if self.second else x
                x = x.transpose(1, 2).unflatten(2, grid)
            else:
                x = net.get_submodule("layer_norm")(x)
            made.append(x)
        return made

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.maps(pixels)[self.last]

    def encode_image(self, pixels: Tensor) -> Tensor:
        x = self.hidden(pixels)
        return x.mean((2, 3)) if self.second else x[:, 0]


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Pvt:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = Second if config.get("model_type") == "pvt_v2" else Config
    c: Any = read_config(kind, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    count = c.num_encoder_blocks
    for key in (*_LISTS, "sr_ratios" if kind is Second else "sequence_reduction_ratios"):
        sizes = getattr(c, key)[:count]
        if len(sizes) != count or not all(isinstance(n, int | float) and n > 0 for n in sizes):
            raise FormatError(f"config.json: {key} does not have {count} positive numbers")
        setattr(c, key, sizes)
    if kind is Config and (type(c.image_size) is not int or c.image_size < 1):
        raise FormatError(f"config.json: image_size is {c.image_size!r}; it must be one size")
    labels = classes_of(config, BASES[c.model_type], kind is Second)
    backbone = config.get("architectures") == ["PvtV2Backbone"]
    return Pvt(c, labels, stages_of(config, count)[-1] - 1 if backbone else -1)


FAMILY = Family(
    model_types=tuple(BASES),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
)
