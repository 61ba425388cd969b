"""The skeleton of vision transformers (Dosovitskiy et al., 2020) in transformers' names."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.preprocessor_config import DINOV2, KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.places import LogarithmicBias, RelativeBias
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.transformer import (
    AttentionPool,
    Layer,
    LayerSpec,
    put_parameter,
)

MOST_TOKENS = 1 << 24


@dataclass(frozen=True)
class ViTSpec:
    """A vision transformer.

    image, patch: (height, width). prefix: tokens before the patches, by their names in the
    embeddings, those that have a position first. registers: tokens after the class's, without
    positions. mask: whether a checkpoint holds the token of masked patches. pooler: a projection of
    the first token and its activation. heads: the paths of classifiers; each reads the token of its
    number, and their logits are averaged. joint: what is classified is the first token beside the
    mean of the patches. patches, stack, last: the paths of the projection, the layers and the last
    norm ("" for none). placed: whether positions are learned; resampled: how those of another size
    are made. relative: biases of distances, of "each" layer or "shared"; relative_inner: channels
    between the products that make them, 0 for tables. mean: what is classified is the mean of the
    patches; pooled: the path of its norm. attended: what is classified is what a
    learned query reads of the patches. entry: the path of a norm before the layers, with which the
    projection has no bias.
    """

    layer: LayerSpec
    layers: int
    image: tuple[int, int]
    patch: tuple[int, int]
    base: str = "vit"
    channels: int = 3
    prefix: tuple[str, ...] = ("cls_token",)
    registers: int = 0
    mask: tuple[int, ...] | None = None
    pooler: tuple[int, str] | None = None
    heads: tuple[str, ...] = ("classifier",)
    joint: bool = False
    patches: str = "embeddings.patch_embeddings.projection"
    stack: str = "encoder.layer"
    last: str = "layernorm"
    placed: bool = True
    relative: str = ""
    relative_inner: int = 0
    mean: bool = False
    pooled: str = ""
    resampled: str = "bicubic"
    attended: bool = False
    entry: str = ""
    mixed: bool = False


_BIAS = {
    "each": "attention.attention.relative_position_bias",
    "shared": "encoder.relative_position_bias",
}


_POOL = "attention_pool"
_BANDS = "rotary_frequencies"


class ViT(ImageModel):
    """Pixels -> logits, or the hidden states (batch, tokens, width) after the last norm.

    Positions of an image of another size are those of `image`, interpolated.
    """

    def __init__(self, config: Any, spec: ViTSpec, labels: tuple[str, ...]) -> None:
        self.config, self.spec, self.labels = config, spec, labels
        usual = {"deit": KINDS["DeiT"], "vit": replace(KINDS["ViT"], size=spec.image)}
        self.processor = usual.get(spec.base, DINOV2)
        width, base = spec.layer.width, f"{spec.base}." if spec.base else ""
        grid = [n // p for n, p in zip(spec.image, spec.patch, strict=True)]
        if min(grid) < 1 or math.prod(grid) > MOST_TOKENS:
            raise FormatError(
                f"config.json: image_size {spec.image} and patch_size {spec.patch} do not fit"
            )
        self.grid = grid[0], grid[1]
        embeddings = f"{base}embeddings"
        put(
            self,
            f"{base}{spec.patches}",
            nn.Conv2d(spec.channels, width, spec.patch, spec.patch, bias=not spec.entry),
        )
        for name in spec.prefix:
            put_parameter(self, f"{embeddings}.{name}", 1, 1, width)
        if spec.registers:
            put_parameter(self, f"{embeddings}.register_tokens", 1, spec.registers, width)
        if spec.mask is not None:
            put_parameter(self, f"{embeddings}.mask_token", *spec.mask)
        if spec.placed:
            count = math.prod(grid) + len(spec.prefix)
            put_parameter(self, f"{embeddings}.position_embeddings", 1, count, width)
        if spec.mixed:
            heads = spec.layer.heads
            put_parameter(self, f"{base}{_BANDS}", 2, spec.layers, heads, width // heads // 2)
        layers = [Layer(spec.layer) for _ in range(spec.layers)]
        if spec.relative:
            for holder in layers if spec.relative == "each" else [self]:
                path = _BIAS[spec.relative] if holder is not self else f"{base}{_BIAS['shared']}"
                heads, inner, first = spec.layer.heads, spec.relative_inner, len(spec.prefix)
                put(
                    holder,
                    path,
                    LogarithmicBias(heads, inner, first)
                    if inner
                    else RelativeBias(heads, self.grid, bool(first)),
                )
        put(self, f"{base}{spec.stack}", nn.ModuleList(layers))
        for path in (spec.entry, spec.last, spec.pooled):
            if path:
                put(self, f"{base}{path}", nn.LayerNorm(width, spec.layer.eps))
        if spec.attended:
            put(self, f"{base}{_POOL}", AttentionPool(spec.layer))
        if spec.pooler is not None and not labels:
            put(self, f"{base}pooler.dense", nn.Linear(width, spec.pooler[0]))
        for path in spec.heads if labels else ():
            put(self, path, nn.Linear(width * (2 if spec.joint else 1), len(labels)))

    @property
    def _base(self) -> Any:
        return self.get_submodule(self.spec.base) if self.spec.base else self

    def embed(self, pixels: Tensor) -> Tensor:
        """Tokens (batch, prefix + registers + patches, width) of pixels, with their positions."""
        spec, table = self.spec, self._base.embeddings
        pixels = self.checked(pixels, spec.channels)
        grid = pixels.shape[2] // spec.patch[0], pixels.shape[3] // spec.patch[1]
        if min(grid) < 1:
            raise ValueError(
                f"{self.config.model_type}: pixels are {pixels.shape}; they must be at least a "
                f"patch of {spec.patch}"
            )
        patches = self._base.get_submodule(spec.patches)(pixels).flatten(2).transpose(1, 2)
        batch, width = len(pixels), spec.layer.width
        first = [getattr(table, name).expand(batch, -1, width) for name in spec.prefix]
        x = cat([*first, patches], 1)
        x = x + self.positions(grid) if spec.placed else x
        if spec.registers:
            registers = table.register_tokens.expand(batch, -1, width)
            x = cat([x[:, : len(spec.prefix)], registers, x[:, len(spec.prefix) :]], 1)
        return self._base.get_submodule(spec.entry)(x) if spec.entry else x

    def positions(self, grid: tuple[int, int]) -> Tensor:
        """The positions (1, prefix + patches, width) of a grid of patches."""
        table: Tensor = self._base.embeddings.position_embeddings
        if grid == self.grid:
            return table
        prefix, count = len(self.spec.prefix), self.grid
        old = table[:, prefix:].reshape(1, *count, -1).permute(0, 3, 1, 2)
        new = interpolate(
            old.float(), size=grid, mode=self.spec.resampled, antialias=bool(self.spec.registers)
        ).to(table.dtype)
        return cat([table[:, :prefix], new.flatten(2).transpose(1, 2)], 1)

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.normed(self.states(pixels)[-1])

    def states(self, pixels: Tensor) -> list[Tensor]:
        """The tokens before the layers, and after each of them."""
        spec, states = self.spec, [self.embed(pixels)]
        grid = pixels.shape[2] // spec.patch[0], pixels.shape[3] // spec.patch[1]
        tables: list[Any] = [None] * spec.layers
        if (rotary := spec.layer.rotary) is not None:
            before, x = len(spec.prefix) + spec.registers, states[0]
            tables = (
                rotary.mixed(getattr(self._base, _BANDS), grid, before, x)
                if spec.mixed
                else [rotary.tables(grid, before, x)] * spec.layers
            )
        shared = spec.relative == "shared"
        mask = self._base.get_submodule(_BIAS["shared"])(grid) if shared else None
        for i, layer in enumerate(self._base.get_submodule(spec.stack).children()):
            if spec.relative == "each":
                mask = layer.get_submodule(_BIAS["each"])(grid)
            states.append(layer(states[-1], mask, tables=tables[i]))
        return states

    def normed(self, x: Tensor) -> Tensor:
        """The last norm."""
        out: Tensor = self._base.get_submodule(self.spec.last)(x) if self.spec.last else x
        return out

    def encode_image(self, pixels: Tensor) -> Tensor:
        """The pooler's result, or what the classifier reads, the mean where there are two."""
        spec, x = self.spec, self.hidden(pixels)
        if spec.pooler is not None and not self.labels:
            pooled: Tensor = ACTIVATIONS[spec.pooler[1]](self._base.pooler.dense(x[:, 0]))
            return pooled
        read = [self._read(x, i) for i in range(len(spec.heads) if self.labels else 1)]
        return stack(read, 0).mean(0) if len(read) > 1 else read[0]

    def _read(self, x: Tensor, number: int) -> Tensor:
        if self.spec.joint and self.labels:
            before = len(self.spec.prefix) + self.spec.registers
            return cat([x[:, 0], x[:, before:].mean(1)], -1)
        if self.spec.attended or self.spec.mean:
            x = x[:, len(self.spec.prefix) + self.spec.registers :]
        if self.spec.attended:
            read: Tensor = self._base.get_submodule(_POOL)(x)
            return read
        if self.spec.mean:
            x = x.mean(1)
            return self._base.get_submodule(self.spec.pooled)(x) if self.spec.pooled else x
        return x[:, number]

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.hidden(pixels)
        if not self.labels:
            return x
        heads = [
            self.get_submodule(path)(self._read(x, i)) for i, path in enumerate(self.spec.heads)
        ]
        total: Tensor = sum(heads[1:], heads[0])
        return total / len(heads) if len(heads) > 1 else total


def pair(value: Any, key: str, least: int = 1) -> tuple[int, int]:
    """(height, width) of a number or a list of two; FormatError names the key of config.json."""
    sizes = value if isinstance(value, list) else [value, value]
    fits = len(sizes) == 2 and all(type(n) is int and least <= n <= 1 << 16 for n in sizes)
    if not fits:
        raise FormatError(f"config.json: {key} is {value!r:.60}; it must be one or two sizes")
    return sizes[0], sizes[1]
