"""CvT (Wu et al., 2021): a transformer in stages, whose queries and keys are convolved."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.convnext import over_channels
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.transformer import put_parameter

_SIZES = ("patch_sizes", "patch_stride", "patch_padding", "embed_dim", "num_heads", "depth",
          "kernel_qkv", "padding_kv", "stride_kv", "padding_q", "stride_q")  # fmt: skip
_PER_STAGE = (*_SIZES, "mlp_ratio", "qkv_bias", "cls_token", "qkv_projection_method")


def _three(*values: Any) -> Any:
    return field(default_factory=lambda: list(values))


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {
        "attention_drop_rate": (), "drop_rate": (), "drop_path_rate": (), "layer_norm_eps": (),
    }  # fmt: skip

    num_channels: int = 3
    patch_sizes: list[int] = _three(7, 3, 3)
    patch_stride: list[int] = _three(4, 2, 2)
    patch_padding: list[int] = _three(2, 1, 1)
    embed_dim: list[int] = _three(64, 192, 384)
    num_heads: list[int] = _three(1, 3, 6)
    depth: list[int] = _three(1, 2, 10)
    mlp_ratio: list[Any] = _three(4.0, 4.0, 4.0)
    qkv_bias: list[Any] = _three(True, True, True)
    cls_token: list[Any] = _three(False, False, True)
    qkv_projection_method: list[Any] = _three("dw_bn", "dw_bn", "dw_bn")
    kernel_qkv: list[int] = _three(3, 3, 3)
    padding_kv: list[int] = _three(1, 1, 1)
    stride_kv: list[int] = _three(2, 2, 2)
    padding_q: list[int] = _three(1, 1, 1)
    stride_q: list[int] = _three(1, 1, 1)
    model_type: str = "cvt"


class _Layer(nn.Module):
    """Tokens (batch, tokens, width) of a map, after the first token if there is one."""

    def __init__(self, c: Config, i: int) -> None:
        width, kernel = c.embed_dim[i], c.kernel_qkv[i]
        self.heads, self.first = c.num_heads[i], bool(c.cls_token[i])
        if width % self.heads:
            raise FormatError(f"config.json: {width} features do not divide into {self.heads}")
        for name in ("query", "key", "value"):
            step, around = (
                (c.stride_q[i], c.padding_q[i])
                if name == "query"
                else (c.stride_kv[i], c.padding_kv[i])
            )
            path = f"attention.attention.convolution_projection_{name}.convolution_projection"
            conv = nn.Conv2d(width, width, kernel, step, around, groups=width, bias=False)
            put(self, f"{path}.convolution", conv)
            put(self, f"{path}.normalization", nn.BatchNorm2d(width))
            product = nn.Linear(width, width, bool(c.qkv_bias[i]))
            put(self, f"attention.attention.projection_{name}", product)
        put(self, "attention.output.dense", nn.Linear(width, width))
        inner = int(width * c.mlp_ratio[i])
        put(self, "intermediate.dense", nn.Linear(width, inner))
        put(self, "output.dense", nn.Linear(inner, width))
        self.layernorm_before, self.layernorm_after = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        part: Any = self
        within = part.attention.attention
        y = self.layernorm_before(x)
        head, places = (y[:, :1], y[:, 1:]) if self.first else (None, y)
        grid = places.transpose(1, 2).reshape(len(x), -1, *size)

        def projected(name: str) -> Tensor:
            conv = getattr(within, f"convolution_projection_{name}").convolution_projection
            z = conv.normalization(conv.convolution(grid)).flatten(2).transpose(1, 2)
            z = z if head is None else cat([head, z], 1)
            wide: Tensor = getattr(within, f"projection_{name}")(z)
            return wide.unflatten(2, (self.heads, -1)).transpose(1, 2)

        scale = x.shape[2] ** -0.5  # of all heads' features, as the published models have it
        q, k, v = (projected(name) for name in ("query", "key", "value"))
        seen = scaled_dot_product_attention(q, k, v, scale=scale)
        x = x + part.attention.output.dense(seen.transpose(1, 2).flatten(2))
        y = part.intermediate.dense(self.layernorm_after(x))
        out: Tensor = x + part.output.dense(ACTIVATIONS["gelu"](y))
        return out


class Cvt(ImageModel):
    """CvT in transformers' names."""

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["ConvNext"]
        before = c.num_channels
        for i, width in enumerate(c.embed_dim):
            base = f"cvt.encoder.stages.{i}"
            conv = nn.Conv2d(before, width, c.patch_sizes[i], c.patch_stride[i], c.patch_padding[i])
            put(self, f"{base}.embedding.convolution_embeddings.projection", conv)
            norm = nn.LayerNorm(width)
            put(self, f"{base}.embedding.convolution_embeddings.normalization", norm)
            layers = nn.ModuleList(_Layer(c, i) for _ in range(c.depth[i]))
            put(self, f"{base}.layers", layers)
            if c.cls_token[i]:
                put_parameter(self, f"{base}.cls_token", 1, 1, c.embed_dim[-1])
            before = width
        if labels:
            self.layernorm, self.classifier = nn.LayerNorm(before), nn.Linear(before, len(labels))

    def _through(self, pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        """The last map (batch, width, rows, columns), and the first token (batch, 1, width)."""
        net: Any = self.get_submodule("cvt.encoder")
        x, first = self.checked(pixels, self.config.num_channels), None
        for stage, named in zip(net.stages.children(), self.config.cls_token, strict=True):
            start = stage.embedding.convolution_embeddings
            x = over_channels(start.normalization, start.projection(x))
            size = (x.shape[2], x.shape[3])
            tokens = x.flatten(2).transpose(1, 2)
            if named:
                tokens = cat([stage.cls_token.expand(len(x), -1, -1), tokens], 1)
            for layer in stage.layers:
                tokens = layer(tokens, size)
            first = tokens[:, :1] if named else None
            tokens = tokens[:, 1:] if named else tokens
            x = tokens.transpose(1, 2).reshape(len(x), -1, *size)
        return x, first

    def hidden(self, pixels: Tensor) -> Tensor:
        return self._through(pixels)[0]

    def encode_image(self, pixels: Tensor) -> Tensor:
        x, first = self._through(pixels)
        tokens = x.flatten(2).transpose(1, 2) if first is None else first
        mean: Tensor = (self.layernorm(tokens) if self.labels else tokens).mean(1)
        return mean


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Cvt:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    count = len(c.depth)
    if not 1 <= count <= 16:
        raise FormatError(f"config.json: depth is {brief(c.depth)}; it has one to 16 stages")
    for key in _PER_STAGE:
        values = getattr(c, key)
        least = 0 if "padding" in key else 1
        good = key not in _SIZES or all(type(n) is int and least <= n <= 1 << 14 for n in values)
        if len(values) != count or not good or (key == "depth" and sum(values) > 1024):
            raise FormatError(
                f"config.json: {key} is {brief(values)}; it must fit {count} stages of depth"
            )
    for method in c.qkv_projection_method:
        choose("qkv_projection_method", method, ("dw_bn",))
    for flag in (*c.qkv_bias, *c.cls_token):
        choose("qkv_bias and cls_token", flag, (True, False))
    if not all(isinstance(r, int | float) and 0 < r * min(c.embed_dim) for r in c.mlp_ratio):
        raise FormatError(f"config.json: mlp_ratio is {brief(c.mlp_ratio)}; supported: above 0")
    if any(c.cls_token[:-1]):
        raise FormatError("config.json: cls_token before the last stage is not supported")
    return Cvt(c, classes_of(config, "Cvt", False))


FAMILY = Family(
    model_types=("cvt",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="cvt.",
    config=Config,
    build=build,
)
