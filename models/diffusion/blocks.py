"""Blocks that UNets and autoencoders share: residual ones, attention, changes of size, times."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS


def sinusoid(times: Tensor, width: int, flip: bool = False, shift: float = 0.0) -> Tensor:
    """Sines and cosines (batch, width) in float32 of times (batch,); flip: cosines first."""
    half = width // 2
    places = ops.arange(half, dtype=float32, device=times.device)
    rates = (places * (-math.log(10000) / (half - shift))).exp()
    angles = times.to(dtype=float32)[:, None] * rates[None]
    waves = [angles.cos(), angles.sin()] if flip else [angles.sin(), angles.cos()]
    return cat(waves if width % 2 == 0 else [*waves, angles[:, :1] * 0], 1)


class TimeEmbedding(nn.Module):
    """Two layers (batch, inputs) -> (batch, width) with an activation between; `cond_proj` adds
    what a distilled model is told of its guidance.
    """

    def __init__(
        self, inputs: int, width: int, act: str = "silu", condition: int | None = None
    ) -> None:
        self.linear_1 = nn.Linear(inputs, width)
        self.cond_proj = None if condition is None else nn.Linear(condition, inputs, bias=False)
        self.linear_2 = nn.Linear(width, width)
        self.act = ACTIVATIONS[act]

    def forward(self, x: Tensor, condition: Tensor | None = None) -> Tensor:
        if condition is not None and self.cond_proj is not None:
            x = x + self.cond_proj(condition)
        out: Tensor = self.linear_2(self.act(self.linear_1(x)))
        return out


class Residual(nn.Module):
    """Norm, activation, convolution, twice, beside the input; a time is added between.

    (batch, inputs, height, width) -> (batch, outputs, height, width). scaled: the time scales and
    shifts what the second norm gives.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        time: int | None,
        groups: int,
        eps: float,
        act: str = "silu",
        scaled: bool = False,
    ) -> None:
        self.norm1 = nn.GroupNorm(groups, inputs, eps)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.scaled, self.act = scaled, ACTIVATIONS[act]
        from_time = outputs * (2 if scaled else 1)
        self.time_emb_proj = None if time is None else nn.Linear(time, from_time)
        self.norm2 = nn.GroupNorm(groups, outputs, eps)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        y = self.conv1(self.act(self.norm1(x)))
        from_time = None
        if time is not None and self.time_emb_proj is not None:
            from_time = self.time_emb_proj(self.act(time))[:, :, None, None]
        if from_time is not None and not self.scaled:
            y = y + from_time
        y = self.norm2(y)
        if from_time is not None and self.scaled:
            scale, shift = from_time.chunk(2, 1)
            y = y * (1 + scale) + shift
        y = self.conv2(self.act(y))
        short: Tensor = x if self.conv_shortcut is None else self.conv_shortcut(x)
        out: Tensor = short + y
        return out


class Attention(nn.Module):
    """Attention of tokens (batch, tokens, width) to themselves or to a context."""

    def __init__(
        self, width: int, heads: int, context: int | None = None, bias: bool = False
    ) -> None:
        self.heads, seen = heads, width if context is None else context
        self.to_q = nn.Linear(width, width, bias)
        self.to_k = nn.Linear(seen, width, bias)
        self.to_v = nn.Linear(seen, width, bias)
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        seen = x if context is None else context
        q, k, v = (
            y.reshape(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)
            for y in (self.to_q(x), self.to_k(seen), self.to_v(seen))
        )
        y = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        out: Tensor = self.to_out[0](y)
        return out


class PictureAttention(Attention):
    """Attention among the places of a map (batch, width, rows, columns), beside the map."""

    def __init__(self, width: int, heads: int, groups: int, eps: float) -> None:
        super().__init__(width, heads, bias=True)
        self.group_norm = nn.GroupNorm(groups, width, eps)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        tokens = self.group_norm(x).flatten(2).transpose(1, 2)
        return x + super().forward(tokens).transpose(1, 2).reshape(x.shape)


class Downsample(nn.Module):
    """A convolution with stride 2; with padding 0 a row and a column of zeros come after."""

    def __init__(self, width: int, padding: int) -> None:
        self.conv = nn.Conv2d(width, width, 3, 2, padding)
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x if self.padding else pad(x, (0, 1, 0, 1)))
        return out


class Upsample(nn.Module):
    """Each value doubled in both directions, or to a size, then a convolution."""

    def __init__(self, width: int) -> None:
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor, size: Any = None) -> Tensor:
        if size is None or tuple(size) == (x.shape[2] * 2, x.shape[3] * 2):
            larger = interpolate(x, scale_factor=2.0, mode="nearest")
        else:
            larger = interpolate(x, size=tuple(size), mode="nearest")
        out: Tensor = self.conv(larger)
        return out
