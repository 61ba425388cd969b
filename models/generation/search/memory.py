"""Memory: what a decoder reads of an encoded source, computed once for all steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Array

# Rows (words, width) of a model's head, and of its bias (words,).
Head = tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Memory:
    """Keys and values (batch, heads, length, head_dim) of each layer; mask: (batch, 1, 1, length)
    bool, false for padding; None: there is none. head: logits are of these rows; None: of all.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]
    mask: Tensor | None = None
    head: Head | None = None


def taken_rows(weight: Tensor, bias: Tensor | None, ids: Array) -> Head:
    """Rows `ids` of a weight (rows, width) of any dtype on cpu, blocks too, and of its bias."""
    row_bytes = np.ascontiguousarray(weight.stored()[ids]).view(np.uint8).reshape(-1)
    rows = Tensor.from_buffer(row_bytes, weight.dtype, (len(ids), weight.shape[1]))
    return rows, None if bias is None else bias.detach()[from_numpy(ids)]
