"""Attention to a memory: queries of one sequence, keys and values of the same or another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.naming import put

Turn = tuple[Tensor, Tensor] | None


class MemoryAttention(nn.Module):
    """Attention with separate projections.

    Of the spec it reads sizes, biases, scale, names, and the order of pairs of rotary positions.
    memory: the width of what keys and values are made of.
    """

    def __init__(self, width: int, spec: AttentionSpec, memory: int | None = None) -> None:
        self.spec, names = spec, spec.names
        inner = spec.heads * spec.head_dim
        key_bias = spec.bias if spec.key_bias is None else spec.key_bias
        put(self, names.q, nn.Linear(width, inner, bias=spec.bias))
        for name, bias in ((names.k, key_bias), (names.v, spec.bias)):
            put(self, name, nn.Linear(memory or width, inner, bias=bias))
        put(self, names.out, nn.Linear(inner, width, bias=spec.out_bias))

    def memory(self, x: Tensor, turn: Turn = None) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, heads, length, head_dim) of x (batch, length, width).

        turn: cos and sin of the angles that keys are rotated by.
        """
        return self.split(self.spec.names.k, x, turn), self.split(self.spec.names.v, x)

    def forward(
        self, x: Tensor, memory: tuple[Tensor, Tensor], turn: Turn = None, **options: Any
    ) -> Tensor:
        """(batch, length, width) -> the same; turn: of queries; options: see `ops.attention`."""
        return self.merged(self.attend(self.split(self.spec.names.q, x, turn), *memory, **options))

    @property
    def projections(self) -> tuple[str, str, str]:
        """The names of the matrices of queries, keys and values."""
        names = self.spec.names
        return names.q, names.k, names.v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        """The values that queries get, (batch, heads, length, head_dim); see `ops.attention`."""
        return ops.attention(q, k, v, scale=self.spec.scale, **options)

    def merged(self, y: Tensor) -> Tensor:
        """(batch, heads, length, head_dim) -> (batch, length, width) by the last matrix."""
        batch, _, length, _ = y.shape
        out: Tensor = self.get_submodule(self.spec.names.out)(
            y.transpose(1, 2).reshape(batch, length, -1)
        )
        return out

    def weights(self, x: Tensor, keys: Tensor, heads: Sequence[int]) -> Tensor:
        """The softmax weights (batch, len(heads), length, keys) that these heads give to `keys`."""
        chosen = list(heads)
        q, k = self.split(self.spec.names.q, x)[:, chosen], keys[:, chosen]
        scale = self.spec.head_dim**-0.5 if self.spec.scale is None else self.spec.scale
        return ops.softmax((q * scale) @ k.transpose(2, 3).to(q.dtype), -1)

    def split(self, name: str, x: Tensor, turn: Turn = None) -> Tensor:
        """(batch, length, width) by the matrix `name` -> (batch, heads, length, head_dim)."""
        batch, length, _ = x.shape
        y: Tensor = self.get_submodule(name)(x)
        y = y.reshape(batch, length, self.spec.heads, -1).transpose(1, 2)
        if turn is None or self.spec.rotary is None:
            return y
        return ops.rope(y, *turn, interleaved=self.spec.rotary.interleaved)
