"""Memory: what a decoder reads of an encoded source, computed once for all steps."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core.tensor.tensor import Tensor


@dataclass(frozen=True)
class Memory:
    """Keys and values (batch, heads, length, head_dim) of each layer; mask: (batch, 1, 1, length)
    bool, false for padding; None: there is none.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]
    mask: Tensor | None = None
