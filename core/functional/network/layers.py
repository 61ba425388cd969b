"""Norms, dropouts and bags of embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.lookup import limit_rows, padding_row, scaled_by_use
from rushlight.core.functional.network.pooling import avg_pool2d
from rushlight.core.functional.normalization import batch_norm
from rushlight.core.functional.random import dropout
from rushlight.core.ops import indexing
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.movement import pad
from rushlight.core.ops.random import rand
from rushlight.core.ops.sparse import embedding_rows
from rushlight.core.tensor.autograd import needs_gradient

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_ALPHA = -1.7580993408473766  # what SELU gives for -infinity


@network
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each row normalized over its own elements (Ulyanov et al., 2016)."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c = input.shape[:2]
    rows = input.reshape(1, n * c, *input.shape[2:])
    mean = None if running_mean is None else running_mean.repeat(n)
    var = None if running_var is None else running_var.repeat(n)
    out = batch_norm(rows, mean, var, None, None, True, momentum, eps).reshape(*input.shape)
    for kept, found in ((running_mean, mean), (running_var, var)):
        if kept is not None and found is not None:
            kept.copy_(found.reshape(n, c).mean(0))
    shape = [-1 if d == 1 else 1 for d in range(input.ndim)]
    out = out if weight is None else out * weight.reshape(*shape)
    return out if bias is None else out + bias.reshape(*shape)


@network
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * the mean square of `size` neighbouring channels)^beta."""
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: x is {input.shape}; it must have 3 dims or more")
    if not input.numel():
        return input
    squares = input.square()
    n, c = input.shape[:2]
    flat = squares.reshape(n, 1, c, -1)
    padded = pad(flat, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(padded, (size, 1), 1).reshape(*input.shape)
    return input / (mean * alpha + k) ** beta


def _by_channel(name: str, x: Tensor, p: float, training: bool, least: int) -> Tensor:
    """Whole channels set to zero."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is {p}; it must be between 0 and 1")
    if not training or p == 0:
        return x
    batched = x.ndim > least
    shape = x.shape[: 2 if batched else 1]
    ones = x.detach().new_ones(*shape)
    kept: Tensor = dropout(ones, p).reshape(*shape, *[1] * (x.ndim - len(shape)))
    return x * kept


@network
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, length) set to zero, the others divided by 1 - p."""
    out = _by_channel("dropout1d", input, p, training, 2)
    return copy_(input, out) if inplace and out is not input else out


@network
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, h, w) set to zero, the others divided by 1 - p."""
    out = _by_channel("dropout2d", input, p, training, 3)
    return copy_(input, out) if inplace and out is not input else out


@network
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, d, h, w) set to zero, the others divided by 1 - p."""
    out = _by_channel("dropout3d", input, p, training, 4)
    return copy_(input, out) if inplace and out is not input else out


@network
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Elements set to SELU's lower end, scaled so that mean and variance keep."""
    return _alpha("alpha_dropout", input, input.shape, p, training, inplace)


def _alpha(
    name: str, x: Tensor, shape: Sequence[int], p: float, training: bool, inplace: bool
) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is {p}; it must be between 0 and 1")
    if not training or p == 0:
        return x
    if p == 1:
        return copy_(x, x * 0) if inplace else x * 0
    kept = (rand(*shape, dtype=x.dtype, device=x.device) >= p).to(x.dtype)
    a = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    out: Tensor = (x * kept + _ALPHA * (1 - kept)) * a - a * _ALPHA * p
    return copy_(x, out) if inplace else out


@public
@network
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of rows of `weight`: of each row of (n, k), or from `offsets` on.

    per_sample_weights multiply the rows ("sum" only). Rows at padding_idx do not count. The other
    arguments are those of `embedding`.
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
    kept = flat.ones_like(dtype="bool") if padding is None else flat != padding
    member = (bag.unsqueeze(0) == arange(count, device=input.device).unsqueeze(1)) & kept
    if mode == "max":
        return _bag_maxima(rows, member)
    rows = where(kept.unsqueeze(1), rows, 0.0)
    total: Tensor = weight.new_zeros(count, weight.shape[1]).index_add(0, bag, rows)
    return total if mode == "sum" else total / member.sum(1).clamp(min=1).unsqueeze(1)


def _bag_maxima(rows: Tensor, member: Tensor) -> Tensor:
    """(bags, width) maxima of rows (n, width) by membership (bags, n); zeros for empty bags."""
    if not rows.shape[0]:
        return rows.new_zeros(member.shape[0], rows.shape[1])
    low = where(member.unsqueeze(2), rows.detach().unsqueeze(0), -math.inf)
    found: Tensor = rows.gather(0, low.argmax(1))
    return where(member.any(1).unsqueeze(1), found, 0.0)


@network
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels: (n, c, ...)."""
    shape = (*input.shape[:2], *[1] * (input.ndim - 2))
    return _alpha("feature_alpha_dropout", input, shape, p, training, inplace)
