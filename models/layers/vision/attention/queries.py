"""A transformer whose queries each find one object (Carion et al., 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass(frozen=True)
class QuerySpec:
    """Layers with norms after their parts, or `before` them; decoding: they attend to a memory.

    before: the MLP's result is added to what its norm gives; ahead: to what the norm reads.
    """

    width: int
    heads: int
    inner: int
    act: str = "relu"
    eps: float = 1e-5
    decoding: bool = False
    before: bool = False
    ahead: bool = False

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise FormatError(
                f"config.json: the width {self.width} is not a multiple of the {self.heads} heads"
            )


class Attention(nn.Module):
    """Attention; positions are added to what queries and keys are made of, not to values."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.register_module(name, nn.Linear(width, width))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        places: Tensor | None = None,
        memory_places: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """x (batch, n, width) attends to memory (batch, m, width), or to itself."""
        if memory is None:
            memory, memory_places = x, places
        sources = [
            x if places is None else x + places,
            memory if memory_places is None else memory + memory_places,
            memory,
        ]
        batch, count, width = x.shape
        q, k, v = (
            self.get_submodule(name)(source)
            .reshape(batch, source.shape[1], self.heads, -1)
            .transpose(1, 2)
            for name, source in zip(("q_proj", "k_proj", "v_proj"), sources, strict=True)
        )
        seen = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.get_submodule("out_proj")(
            seen.transpose(1, 2).reshape(batch, count, width)
        )
        return out


class Layer(nn.Module):
    """A layer in the names of BART's; see QuerySpec."""

    def __init__(self, spec: QuerySpec) -> None:
        self.spec = spec
        self.self_attn = Attention(spec.width, spec.heads)
        self.self_attn_layer_norm = nn.LayerNorm(spec.width, spec.eps)
        if spec.decoding:
            self.encoder_attn = Attention(spec.width, spec.heads)
            self.encoder_attn_layer_norm = nn.LayerNorm(spec.width, spec.eps)
        self.fc1, self.fc2 = nn.Linear(spec.width, spec.inner), nn.Linear(spec.inner, spec.width)
        self.final_layer_norm = nn.LayerNorm(spec.width, spec.eps)
        if spec.act == "prelu":
            self.activation_fn = nn.PReLU()

    def forward(
        self,
        x: Tensor,
        places: Tensor | None,
        memory: Tensor | None = None,
        memory_places: Tensor | None = None,
    ) -> Tensor:
        if self.spec.before:
            x = x + self.self_attn(self.self_attn_layer_norm(x), places=places)
            x = self.final_layer_norm(x)  # which the sum below begins with
            return x + self._mlp(x)
        if self.spec.ahead:
            x = x + self.self_attn(self.self_attn_layer_norm(x), places=places)
            if memory is not None:
                normed = self.encoder_attn_layer_norm(x)
                x = x + self.encoder_attn(normed, memory, places, memory_places)
            return x + self._mlp(self.final_layer_norm(x))
        x = self.self_attn_layer_norm(x + self.self_attn(x, places=places))
        if self.spec.decoding and memory is not None:
            seen = self.encoder_attn(x, memory, places, memory_places)
            x = self.encoder_attn_layer_norm(x + seen)
        return self.fed(x)

    def fed(self, x: Tensor) -> Tensor:
        """norm(x + mlp(x))."""
        normed: Tensor = self.final_layer_norm(x + self._mlp(x))
        return normed

    def _mlp(self, x: Tensor) -> Tensor:
        own: Any = ACTIVATIONS.get(self.spec.act) or self.activation_fn
        out: Tensor = self.fc2(own(self.fc1(x)))
        return out


def sines(shares: Tensor, half: int, theta: float = 10000.0, scale: float = 2 * math.pi) -> Tensor:
    """Sines and cosines in turn (..., half) of shares (...) times `scale`, in float32."""
    bands = arange(half, device=shares.device).float()
    bands = ((bands / 2).floor() * (-2 * math.log(theta) / half)).exp()
    angles = (shares.float() * scale).unsqueeze(-1) * bands
    return stack([angles[..., 0::2].sin(), angles[..., 1::2].cos()], -1).flatten(-2)


def sine_boxes(boxes: Tensor, half: int, swapped: bool = True) -> Tensor:
    """`sines` of the numbers of boxes (..., n) beside each other (..., n half).

    swapped: the second number comes first.
    """
    parts = list(boxes.unbind(-1))
    parts = [parts[1], parts[0], *parts[2:]] if swapped else parts
    return cat([sines(part, half) for part in parts], -1).to(boxes.dtype)


def sine_places(
    grid: tuple[int, int],
    width: int,
    like: Tensor,
    theta: float | tuple[float, float] = 10000.0,
    scale: float = 2 * math.pi,
    middle: float = 0.0,
) -> Tensor:
    """Sines and cosines of the places of a grid (1, places, width), rows before columns.

    Places end at `scale`, as Carion et al. (2020) normalize them. theta: of both sides, or of rows
    and of columns. middle: what is taken off each place.
    """
    half, thetas = width // 2, theta if isinstance(theta, tuple) else (theta, theta)
    sides = []
    for n, of_side in zip(grid, thetas, strict=True):
        place = (arange(n, device=like.device).float() + (1 - middle)) / (n + 1e-6)
        sides.append(sines(place, half, of_side, scale))
    tall = sides[0].unsqueeze(1).expand(*grid, half)
    wide = sides[1].unsqueeze(0).expand(*grid, half)
    return cat([tall, wide], -1).reshape(1, grid[0] * grid[1], width).to(like.dtype)
