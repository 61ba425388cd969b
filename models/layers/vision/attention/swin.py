"""Swin Transformer's stages (Liu et al., 2021), and those of version 2 (Liu et al., 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.functional.reductions import normalize
from rushlight.core.functional.shape import roll
from rushlight.core.ops.creation import arange
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.places import between, pairs
from rushlight.models.layers.vision.attention.windows import filled, joined, parted
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.stages import normed_maps, put_norms
from rushlight.models.layers.vision.transformer import put_parameter

_HIDDEN = 512  # of the network that makes the biases of version 2
_SEEN_NOT = -100.0  # what attention adds between regions, as the authors' code does


@dataclass(frozen=True)
class Stage:
    """Layers of one resolution; each second one has its windows moved by `shift`."""

    width: int
    layers: int
    heads: int
    window: int
    shift: int
    pretrained: int = 0  # the window that biases of version 2 were trained with


@dataclass(frozen=True)
class SwinSpec:
    """A Swin Transformer. base: of its names.

    still: where windows do not move. "either": no axis is longer than the window ("transformers"),
    "each": on an axis that is not longer, "": where the stage says so. timm: windows are moved
    before zeros fill the last ones. places: the grid of learned positions. last: whether there is a
    norm after the last stage. named: the states of a backbone that have norms of their own.
    """

    stages: Sequence[Stage]
    second: bool
    base: str
    channels: int
    patch: tuple[int, int]
    ratio: float
    act: str
    eps: float
    bias: bool
    still: str = "either"
    timm: bool = False
    places: tuple[int, int] | None = None
    mask: bool = False
    last: bool = True
    named: Sequence[int] = ()


class _Attention(nn.Module):
    """Attention within windows (windows, tokens, width), with biases of relative positions."""

    def __init__(self, spec: SwinSpec, stage: Stage) -> None:
        self.stage, self.second, width = stage, spec.second, stage.width
        if stage.heads < 1 or width % stage.heads:
            raise FormatError(f"config.json: the width {width} is no multiple of {stage.heads}")
        for name in ("query", "key", "value"):
            biased = spec.bias and not (name == "key" and self.second)
            put(self, f"self.{name}", nn.Linear(width, width, biased))
        if self.second:
            put_parameter(self, "self.logit_scale", stage.heads, 1, 1)
            put(
                self,
                "self.continuous_position_bias_mlp",
                nn.Sequential(
                    nn.Linear(2, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, stage.heads, bias=False)
                ),
            )
        else:
            count = (2 * stage.window - 1) ** 2
            put_parameter(self, "self.relative_position_bias_table", count, stage.heads)
        put(self, "output.dense", nn.Linear(width, width))

    def forward(self, x: Tensor, regions: Tensor | None) -> Tensor:
        """regions (places, tokens): of tokens, which see their own region; None: all are one."""
        attention: Any = self.get_submodule("self")
        out = self.get_submodule("output.dense")
        windows, tokens, width = x.shape
        q, k, v = (
            layer(x).reshape(windows, tokens, self.stage.heads, -1).transpose(1, 2)
            for layer in (attention.query, attention.key, attention.value)
        )
        mask, scale = self._bias(x), None
        if self.second:
            most = math.log(1 / 0.01)
            q = normalize(q, dim=-1) * attention.logit_scale.clamp(max=most).exp()
            k, scale = normalize(k, dim=-1), 1.0
        if regions is not None:
            apart = (regions.unsqueeze(1) != regions.unsqueeze(2)).to(x.dtype) * _SEEN_NOT
            mask = mask + apart.repeat(windows // len(regions), 1, 1).unsqueeze(1)
        seen = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        projected: Tensor = out(seen.transpose(1, 2).reshape(windows, tokens, width))
        return projected

    def _bias(self, x: Tensor) -> Tensor:
        """The biases (1, heads, tokens, tokens) of the tokens of a window."""
        attention: Any = self.get_submodule("self")
        table = (
            attention.continuous_position_bias_mlp(self._places(x))
            if self.second
            else (attention.relative_position_bias_table)
        )
        by_pair = between(table, (self.stage.window, self.stage.window))
        bias: Tensor = by_pair.permute(2, 0, 1).unsqueeze(0)
        return bias.sigmoid() * 16 if self.second else bias

    def _places(self, x: Tensor) -> Tensor:
        """Distances (n, 2) within a window on version 2's logarithmic scale."""
        window, trained = self.stage.window, self.stage.pretrained
        step = arange(1 - window, window, device=x.device).to(x.dtype)
        step = step * (8 / max((trained or window) - 1, 1))
        step = step.sign() * (step.abs() + 1).log2() / 3
        return pairs(step, step)


class Layer(nn.Module):
    """Attention within windows and an MLP; norms are before them, in version 2 after."""

    def __init__(self, spec: SwinSpec, stage: Stage, moved: bool) -> None:
        self.spec, self.stage, self.moved = spec, stage, moved
        width, inner = stage.width, int(spec.ratio * stage.width)
        self.attention = _Attention(spec, stage)
        self.layernorm_before = nn.LayerNorm(width, spec.eps)
        self.layernorm_after = nn.LayerNorm(width, spec.eps)
        put(self, "intermediate.dense", nn.Linear(width, inner))
        put(self, "output.dense", nn.Linear(inner, width))

    def forward(self, x: Tensor, padded: bool = False) -> Tensor:
        """x (batch, height, width, channels). padded: windows move on small axes too."""
        if self.spec.second:
            x = x + self.layernorm_before(self._windows(x, padded))
            normed: Tensor = self.layernorm_after(self._mlp(x))
            return x + normed
        x = x + self._windows(self.layernorm_before(x), padded)
        return x + self._mlp(self.layernorm_after(x))

    def _mlp(self, x: Tensor) -> Tensor:
        inner = ACTIVATIONS[self.spec.act](self.get_submodule("intermediate.dense")(x))
        projected: Tensor = self.get_submodule("output.dense")(inner)
        return projected

    def _shifts(self, sides: tuple[int, int], padded: bool) -> tuple[int, int]:
        shift, window = self.stage.shift if self.moved else 0, self.stage.window
        small = [n <= window for n in sides]
        if padded or self.spec.still == "":
            return shift, shift
        if self.spec.still == "either":
            return (0, 0) if any(small) else (shift, shift)
        return (0 if small[0] else shift), (0 if small[1] else shift)

    def _windows(self, x: Tensor, padded: bool) -> Tensor:
        n, (tall, wide) = self.stage.window, x.shape[1:3]
        shifts = self._shifts((tall, wide), padded)
        back = (-shifts[0], -shifts[1])
        if self.spec.timm and any(shifts):
            x = roll(x, back, (1, 2))
        x = filled(x, n)
        grid = x.shape[1], x.shape[2]
        if not self.spec.timm and any(shifts):
            x = roll(x, back, (1, 2))
        regions = self._regions(x, grid[0] // n, grid[1] // n, shifts) if any(shifts) else None
        x = self.attention(parted(x, n).flatten(1, 2), regions)
        x = joined(x.unflatten(1, (n, n)), grid)
        if self.spec.timm:
            x = x[:, :tall, :wide]
        if any(shifts):
            x = roll(x, shifts, (1, 2))
        return x[:, :tall, :wide]

    def _regions(self, x: Tensor, rows: int, columns: int, shifts: tuple[int, int]) -> Tensor:
        """The regions (windows, tokens) of moved windows: what was not beside is apart."""
        n, sides = self.stage.window, []
        for count, shift in ((rows, shifts[0]), (columns, shifts[1])):
            place = arange(count * n, device=x.device)
            if not shift:
                sides.append((place * 0).reshape(count, n))
                continue
            first, second = place >= (count - 1) * n, place >= count * n - shift
            sides.append((first.to(place.dtype) + second.to(place.dtype)).reshape(count, n))
        tall, wide = sides
        apart = tall.reshape(rows, 1, n, 1) * 3 + wide.reshape(1, columns, 1, n)
        return apart.reshape(rows * columns, n * n)


class PatchMerging(nn.Module):
    """Four neighbours become one: (batch, height, width, n) to (.., height / 2, width / 2, 2n)."""

    def __init__(self, width: int, second: bool) -> None:
        self.second = second
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2 * width if second else 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tall, wide, channels = x.shape
        if tall % 2 or wide % 2:
            x = pad(x, (0, 0, 0, wide % 2, 0, tall % 2))
        rows, columns = -(-tall // 2), -(-wide // 2)
        x = x.reshape(batch, rows, 2, columns, 2, channels).permute(0, 1, 3, 4, 2, 5)
        x = x.reshape(batch, rows, columns, 4 * channels)
        reduced: Tensor = (
            self.norm(self.reduction(x)) if self.second else self.reduction(self.norm(x))
        )
        return reduced


class Swin(ImageModel):
    """Pixels -> logits, or the hidden states (batch, tokens, width) after the last norm."""

    def __init__(self, config: Any, spec: SwinSpec, labels: tuple[str, ...]) -> None:
        self.config, self.spec, self.labels = config, spec, labels
        self.processor = KINDS["ViT"]
        first, base = spec.stages[0].width, spec.base
        put(
            self,
            f"{base}embeddings.patch_embeddings.projection",
            nn.Conv2d(spec.channels, first, spec.patch, spec.patch),
        )
        put(self, f"{base}embeddings.norm", nn.LayerNorm(first))
        if spec.places is not None:
            count = math.prod(spec.places)
            put_parameter(self, f"{base}embeddings.position_embeddings", 1, count, first)
        if spec.mask:
            put_parameter(self, f"{base}embeddings.mask_token", 1, 1, first)
        for i, stage in enumerate(spec.stages):
            path = f"{base}encoder.layers.{i}"
            layers = [Layer(spec, stage, j % 2 == 1) for j in range(stage.layers)]
            put(self, f"{path}.blocks", nn.ModuleList(layers))
            if i + 1 < len(spec.stages):
                put(self, f"{path}.downsample", PatchMerging(stage.width, spec.second))
        last = spec.stages[-1].width
        if spec.last:
            put(self, f"{base}layernorm", nn.LayerNorm(last, spec.eps))
        put_norms(self, spec.named, [first, *(stage.width for stage in spec.stages)])
        if labels:
            self.classifier = nn.Linear(last, len(labels))

    @property
    def _base(self) -> Any:
        return self.get_submodule(self.spec.base[:-1]) if self.spec.base else self

    def maps(self, pixels: Tensor, padded: bool = False) -> list[Tensor]:
        """What each stage makes (batch, height, width, channels), before its neighbours merge."""
        return self._states(pixels, padded)[1:]

    def feature_maps(self, pixels: Tensor) -> list[Tensor]:
        """The maps (batch, channels, height, width) that a backbone names, after their norms."""
        return normed_maps(self, self._states(pixels, True))

    def _states(self, pixels: Tensor, padded: bool) -> list[Tensor]:
        spec, net = self.spec, self._base
        x = self.checked(pixels, spec.channels)
        below, right = (-n % p for n, p in zip(x.shape[2:], spec.patch, strict=True))
        if (below or right) and spec.still != "each":  # torchvision's leaves the rest out
            x = pad(x, (0, right, 0, below))
        x = net.embeddings.patch_embeddings.projection(x).permute(0, 2, 3, 1)
        x = net.embeddings.norm(x)
        if spec.places is not None:
            x = x + self._positions(x.shape[1], x.shape[2])
        states = [x]
        for stage in net.encoder.layers.children():
            for layer in stage.blocks:
                x = layer(x, padded)
            states.append(x)
            if len(states) <= len(spec.stages):
                x = stage.downsample(x)
        return states

    def _positions(self, tall: int, wide: int) -> Tensor:
        places = self.spec.places or (tall, wide)
        table: Tensor = self._base.embeddings.position_embeddings
        table = table.reshape(1, *places, -1)
        if (tall, wide) == places:
            return table
        table = interpolate(table.permute(0, 3, 1, 2), size=(tall, wide), mode="bicubic")
        return table.permute(0, 2, 3, 1)

    def hidden(self, pixels: Tensor) -> Tensor:
        if self.spec.named:
            return self.feature_maps(pixels)[-1].flatten(2).transpose(1, 2)
        last_map = self.maps(pixels)[-1].flatten(1, 2)
        normed: Tensor = self._base.layernorm(last_map) if self.spec.last else last_map
        return normed

    def encode_image(self, pixels: Tensor) -> Tensor:
        return self.hidden(pixels).mean(1)
