"""Layers of voices that make sound frame by frame: attention to earlier frames, and to a text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.positions.rotary import Rotary, RotarySpec

KeysValues = dict[str, tuple[Tensor, Tensor]]  # keys and values by the attention's place


@dataclass(frozen=True)
class Attending:
    """Attention of `heads` heads of `size` features, `shared` of them with keys and values.

    rotary: its positions; None: without. inside: the width of what is attended to, where that is
    not the own one. scale: of the scores; None: 1 / sqrt(size). causal: whether a step sees those
    before it alone.
    """

    heads: int
    shared: int
    size: int
    rotary: RotarySpec | None = None
    inside: int | None = None
    bias: bool = False
    scale: float | None = None
    causal: bool = True


class CachedAttention(nn.Module):
    """Attention whose keys and values of earlier steps are kept under a name."""

    def __init__(self, width: int, spec: Attending) -> None:
        inside = spec.inside or width
        self.spec = spec
        self.rotary = None if spec.rotary is None else Rotary([spec.rotary])
        self.q_proj = nn.Linear(width, spec.heads * spec.size, spec.bias)
        self.k_proj = nn.Linear(inside, spec.shared * spec.size, spec.bias)
        self.v_proj = nn.Linear(inside, spec.shared * spec.size, spec.bias)
        self.o_proj = nn.Linear(spec.heads * spec.size, width, spec.bias)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], -1, self.spec.size).transpose(1, 2)

    def _turned(self, x: Tensor, start: int) -> Tensor:
        if self.rotary is None:
            return x
        places = ops.arange(start, start + x.shape[2], device=x.device).unsqueeze(0)
        [(cos, sin)] = self.rotary.angles(places).values()
        return ops.rope(x, cos, sin, interleaved=False)

    def remember(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, shared, n, size) of a memory x (batch, n, inside)."""
        return self._split(self.k_proj(x)), self._split(self.v_proj(x))

    def read(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """x (batch, n, width) attends to a memory, where `mask` (batch, 1, 1, m) is true."""
        return self._out(self._split(self.q_proj(x)), *memory, mask, x)

    def forward(
        self, x: Tensor, cache: KeysValues, place: str, mask: Tensor | None = None
    ) -> Tensor:
        """x (batch, n, width) attends to the steps that `cache` has under `place`, and to itself.

        mask (batch, 1, 1, n): of what is attended to, where attention is not causal.
        """
        start = cache[place][0].shape[2] if place in cache else 0
        q = self._turned(self._split(self.q_proj(x)), start)
        k, v = self.remember(x)
        k = self._turned(k, start)
        if place in cache:
            k, v = cat([cache[place][0], k], 2), cat([cache[place][1], v], 2)
        cache[place] = k, v
        n = x.shape[1]
        if self.spec.causal and n > 1:
            rows = ops.arange(start, start + n, device=x.device).unsqueeze(1)
            mask = rows >= ops.arange(start + n, device=x.device)
        return self._out(q, k, v, mask, x)

    def _out(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, x: Tensor) -> Tensor:
        if self.spec.shared != self.spec.heads:
            k, v = (y.repeat_interleave(self.spec.heads // self.spec.shared, 1) for y in (k, v))
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.spec.scale)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(*x.shape[:2], -1))
        return out


class PlainMLP(nn.Module):
    """A product, an activation, and a product, under the names fc1 and fc2."""

    def __init__(self, width: int, inner: int, act: Callable[[Tensor], Tensor]) -> None:
        self.fc1, self.fc2 = nn.Linear(width, inner, False), nn.Linear(inner, width, False)
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.act(self.fc1(x)))
        return out


class GatedMLP(nn.Module):
    """A product of which an activation of another is the gate, and a product (Shazeer, 2020)."""

    def __init__(
        self, width: int, inner: int, act: Callable[[Tensor], Tensor], bias: bool = False
    ) -> None:
        self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias) for _ in range(2))
        self.down_proj, self.act = nn.Linear(inner, width, bias), act

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))
        return out


class CachedLayer(nn.Module):
    """Attention and an MLP, each after a norm, as Llama's layers have them."""

    def __init__(self, width: int, spec: Attending, mlp: nn.Module, norm: Any) -> None:
        """norm: () -> a norm of the width."""
        self.self_attn, self.mlp = CachedAttention(width, spec), mlp
        self.input_layernorm, self.post_attention_layernorm = norm(), norm()

    def forward(self, x: Tensor, cache: KeysValues, place: str) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cache, place)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


def through(layers: Any, x: Tensor, cache: KeysValues, name: str = "") -> Tensor:
    """x (batch, n, width) through layers, whose places in `cache` begin with `name`."""
    for i, layer in enumerate(layers):
        x = layer(x, cache, f"{name}{i}")
    return x


def row_of(numbers: Any, device: Any) -> Tensor:
    """Whole numbers (n,) on a device, as (1, n)."""
    return tensor(np.asarray(numbers, np.int64).reshape(1, -1), device=device)
