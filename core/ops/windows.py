"""Largest elements of windows, their places, and sums of a few weighted elements along a dim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import int64
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Triple = tuple[int, int, int]


def _infer_places(
    x: Meta, *, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, count: Triple
) -> Meta:
    return x.fresh((x.shape[0], *count), int64)


# x (n, d, h, w): the place in (d, h, w), flat, of the first largest element of each window. What
# lies in the padding is no element; -1 for a window without any. As in torch a NaN is larger than
# what comes before it. Integers hold no larger number than their dtype's.
WINDOW_ARGMAX = Op("window_argmax", infer=_infer_places, differentiable=False)


def _infer_largest(
    x: Meta, *, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, count: Triple
) -> Meta:
    return x.fresh((x.shape[0], *count))


def _to_largest(c: Context, g: Tensor, x: Tensor) -> Tensor:
    places = WINDOW_ARGMAX(x.detach(), **c.attrs).flatten(1)
    return g.new_zeros(x.flatten(1).shape).scatter_add(1, places, g.flatten(1)).reshape(x.shape)


# The largest element itself, NaN if one is NaN; every window has an element.
WINDOW_MAX = Op("window_max", infer=_infer_largest, grads=(rule(_to_largest, 0),))


def _infer_resample(x: Meta, places: Meta, weight: Meta, *back: Meta | None, dim: int) -> Meta:
    return x.fresh((*x.shape[:dim], places.shape[0], *x.shape[dim + 1 :]))


def _turned(c: Context, g: Tensor, *tables: Tensor) -> Any:
    places, weight, back_places, back_weight = tables
    return RESAMPLE(g.contiguous(), back_places, back_weight, places, weight, **c.attrs)


# Element j along a dim is the sum over t of weight[j, t] * x[at[j, t]]; nothing for an `at` of -1.
# Weights are the bits of float32 in int32, or of float64 in int64: nothing differentiates a table.
# The other two inputs are the same table seen from the elements of x, for the gradient alone.
RESAMPLE: Op = Op(
    "resample", infer=_infer_resample, grads=(rule(_turned, 1, 2, 3, 4), None, None, None, None)
)
