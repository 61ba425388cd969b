"""Rows of a table by integer index: the function of the embedding layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.ops import indexing
from rushlight.core.ops.declare import network

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of `weight` (rows, width) at the indices `input`: (...) -> (..., width).

    Row `padding_idx` gets no gradient. IndexError for an index without a row.
    """
    out = indexing.embedding(weight, input)
    if padding_idx is None or not out.requires_grad:
        return out
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise IndexError(
            f"embedding: padding_idx {padding_idx} is out of range for {weight.shape[0]} rows"
        )
    kept = (input != padding_idx % weight.shape[0]).unsqueeze(-1)
    return out.where(kept, out.detach())
