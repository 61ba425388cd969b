"""Rows of a table by integer index, bags of such rows, one-hot vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.ops import indexing
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.sparse import embedding_rows
from rushlight.core.tensor.autograd import needs_gradient, no_grad

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each class and 0 elsewhere, int64 (*shape, classes); -1 reads the largest class."""
    x = tensor
    if x.dtype is not int64:
        raise TypeMismatch(f"one_hot: {x.dtype.name} is not int64; use x.long()")
    least, most = (int(v.item()) for v in (x.amin(), x.amax())) if x.numel() else (0, -1)
    count = most + 1 if num_classes == -1 else num_classes
    if least < 0 or most >= count or count < 1:
        raise ValueError(f"one_hot: classes {least} to {most} are not in 0 to {count - 1}")
    return (x.unsqueeze(-1) == arange(count, device=x.device)).to(int64)


@public
@network
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of `weight`: of each row of (n, k), or from `offsets` on.

    per_sample_weights multiply the rows ("sum" only). Rows at padding_idx do not count. The other
    arguments are those of `embedding`.

    `input` are the indices; `mode`: "sum", "mean" or "max"; `include_last_offset`: the last offset
    ends the last bag. `max_norm`, `norm_type`, `scale_grad_by_freq` and `sparse` are these. Raises
    ValueError for another mode, ShapeError for shapes that do not fit, IndexError for an index
    without a row.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f'embedding_bag: mode is {mode!r}; it must be "sum", "mean" or "max"')
    if per_sample_weights is not None and (
        mode != "sum" or per_sample_weights.shape != input.shape
    ):
        raise ShapeError(
            f'embedding_bag: per_sample_weights {per_sample_weights.shape} need mode="sum", not '
            f"{mode!r}, and the shape of input, {input.shape}"
        )
    if (input.ndim == 1) is (offsets is None) or input.ndim not in (1, 2):
        raise ShapeError(f"embedding_bag: input is {input.shape}; (n,) with offsets, or (n, k)")
    padding = padding_row("embedding_bag", padding_idx, weight)
    flat = input.reshape(-1)
    places = arange(flat.shape[0], device=input.device)
    if offsets is None:
        count = input.shape[0]
        bag = places // max(input.shape[1], 1)
    else:
        count = offsets.shape[0] - int(include_last_offset)
        # The last offset that is not beyond a place begins its bag.
        starts = offsets[:count].to("int64")
        bag = (starts.unsqueeze(0) <= places.unsqueeze(1)).sum(1) - 1
    if max_norm is not None:
        limit_rows(flat, weight, max_norm, norm_type)
    if mode == "max" and (sparse or scale_grad_by_freq):
        what = "sparse weights" if sparse else "scaling the gradient by the frequency"
        raise ValueError(f"embedding_bag: max mode does not support {what}")
    if sparse and needs_gradient(weight):
        rows = embedding_rows("embedding_bag", weight, flat, padding, scale_grad_by_freq)
    else:
        rows = indexing.embedding(weight, flat)
    if scale_grad_by_freq and rows.requires_grad:
        rows = scaled_by_use(rows, flat, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    counted = flat.ones_like(dtype="bool") if padding is None else flat != padding
    member = (bag.unsqueeze(0) == arange(count, device=input.device).unsqueeze(1)) & counted
    if mode == "max":
        return _bag_maxima(rows, member)
    rows = where(counted.unsqueeze(1), rows, 0.0)
    total: Tensor = weight.new_zeros(count, weight.shape[1]).index_add(0, bag, rows)
    return total if mode == "sum" else total / member.sum(1).clamp(min=1).unsqueeze(1)


def _bag_maxima(rows: Tensor, member: Tensor) -> Tensor:
    """(bags, width) maxima of rows (n, width) by membership (bags, n); zeros for empty bags."""
    if not rows.shape[0]:
        return rows.new_zeros(member.shape[0], rows.shape[1])
    low = where(member.unsqueeze(2), rows.detach().unsqueeze(0), -math.inf)
    largest: Tensor = rows.gather(0, low.argmax(1))
    return where(member.any(1).unsqueeze(1), largest, 0.0)


@network
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` (rows, width) at the indices `input`: (...) -> (..., width).

    Row `padding_idx` gets no gradient. max_norm: rows that are used and longer are scaled to it in
    place. scale_grad_by_freq divides a row's gradient by its number of uses. sparse: the gradient
    of `weight`, a leaf, is a `RowSparse`, which SGD, Adagrad and SparseAdam take. IndexError for an
    index without a row.

    `norm_type` is the order of these norms. `weight` is floating or quantized, `input` integers.
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
