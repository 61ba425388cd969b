"""Rows of a table by integer index: the function of the embedding layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.ops import indexing
from rushlight.core.ops.declare import network
from rushlight.core.ops.sparse import embedding_rows
from rushlight.core.tensor.autograd import needs_gradient, no_grad

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` (rows, width) at the indices `input`: (...) -> (..., width).

    Row `padding_idx` gets no gradient. max_norm: rows that are used and longer are scaled to it in
    place. scale_grad_by_freq divides a row's gradient by its number of uses. sparse: the gradient
    of `weight`, a leaf, is a `RowSparse`, which SGD, Adagrad and SparseAdam take. IndexError for an
    index without a row.
    """
    row = padding_row("embedding", padding_idx, weight)
    if max_norm is not None:
        limit_rows(input, weight, max_norm, norm_type)
    if sparse and needs_gradient(weight):
        return embedding_rows("embedding", weight, input, row, scale_grad_by_freq)
    out = indexing.embedding(weight, input)
    if not out.requires_grad:
        return out
    if scale_grad_by_freq:
        out = scaled_by_use(out, input, weight)
    if row is None:
        return out
    return out.where((input != row).unsqueeze(-1), out.detach())


def padding_row(name: str, padding_idx: int | None, weight: Tensor) -> int | None:
    """padding_idx from the front; IndexError where `weight` has no such row."""
    if padding_idx is None:
        return None
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise IndexError(
            f"{name}: padding_idx {padding_idx} is out of range for {weight.shape[0]} rows"
        )
    return padding_idx % weight.shape[0]


def _uses(input: Tensor, weight: Tensor) -> Tensor:
    """How often each row is used, in the weight's dtype."""
    flat = input.detach().reshape(-1)
    ones = weight.detach().new_ones(flat.shape[0])
    return weight.detach().new_zeros(weight.shape[0]).index_add(0, flat, ones)


def limit_rows(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are used and longer than max_norm to it, in place."""
    with no_grad():
        norms = weight.norm(norm_type, 1, True)
        long = (norms > max_norm) & (_uses(input, weight) > 0).unsqueeze(1)
        weight.copy_((weight * (max_norm / (norms + 1e-7))).where(long, weight))


def scaled_by_use(out: Tensor, input: Tensor, weight: Tensor) -> Tensor:
    """`out` with its gradient divided by the number of uses of each row."""
    share = indexing.embedding(_uses(input, weight).reciprocal().unsqueeze(1), input)
    return out.detach() + (out - out.detach()) * share
