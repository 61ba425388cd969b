"""Sums, products, extremes and places along dims."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rushlight.core.backends import HOST
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.operators.common import as_tensor, axes_of, axis_of
from rushlight.core.onnx.registry import Call, as_ints, operator

Reduction = Callable[[Any, list[int], bool], Any]


def _sum(x: Any, dims: list[int], keep: bool) -> Any:
    return rl.sum(x, dims, keep).to(x.dtype)


def _mean(x: Any, dims: list[int], keep: bool) -> Any:
    if x.dtype.kind == "f":
        return rl.mean(x, dims, keep)
    count = prod(x.shape[d] for d in dims)
    total = rl.sum(x, dims, keep)
    return rl.div(total, count, rounding_mode="trunc").to(x.dtype)


def _prod(x: Any, dims: list[int], keep: bool) -> Any:
    dtype = x.dtype
    for d in sorted(dims, reverse=True):
        x = rl.prod(x, d, keep)
    return x.to(dtype)


def _through_floats(run: Reduction) -> Reduction:
    """A reduction of floats also of integers, cut off at the end."""

    def over(x: Any, dims: list[int], keep: bool) -> Any:
        if x.dtype.kind == "f":
            return run(x, dims, keep)
        wide = "float64" if x.device is HOST else "float32"
        return run(x.to(wide), dims, keep).to(x.dtype)

    return over


def _largest(x: Any, dims: list[int], keep: bool) -> Any:
    if not prod(x.shape[d] for d in dims):
        return _of_nothing(x, dims, keep, -1)
    return rl.amax(x, dims, keep)


def _smallest(x: Any, dims: list[int], keep: bool) -> Any:
    if not prod(x.shape[d] for d in dims):
        return _of_nothing(x, dims, keep, 1)
    return rl.amin(x, dims, keep)


def _of_nothing(x: Any, dims: list[int], keep: bool, sign: int) -> Any:
    """The least or the greatest number of a dtype, in the shape of a reduction."""
    shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]
    number: Any = sign * np.inf
    if x.dtype.kind == "b":
        number = sign > 0
    elif x.dtype.kind != "f":
        info = np.iinfo(x.dtype.numpy)
        number = int(info.max if sign > 0 else info.min)
    return rl.full(shape, number, dtype=x.dtype, device=x.device)


def _log_sum_exp(x: Any, dims: list[int], keep: bool) -> Any:
    if not prod(x.shape[d] for d in dims):
        return _of_nothing(x, dims, keep, -1)
    return rl.logsumexp(x, dims, keep)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _prod,
    "ReduceMax": _largest,
    "ReduceMin": _smallest,
    "ReduceL1": lambda x, dims, keep: _sum(rl.abs(x), dims, keep),
    "ReduceL2": _through_floats(lambda x, dims, keep: rl.sqrt(rl.sum(x * x, dims, keep))),
    "ReduceSumSquare": lambda x, dims, keep: _sum(x * x, dims, keep),
    "ReduceLogSum": _through_floats(lambda x, dims, keep: rl.log(rl.sum(x, dims, keep))),
    "ReduceLogSumExp": _through_floats(_log_sum_exp),
}
# What is left where no dim is reduced.
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "ReduceL1": rl.abs,
    "ReduceL2": rl.abs,
    "ReduceSumSquare": lambda x: x * x,
    "ReduceLogSum": lambda x: (
        rl.log(x.to("float32")).to(x.dtype) if x.dtype.kind != "f" else x.log()
    ),
}


def _enter() -> None:
    for name, reduction in _REDUCTIONS.items():

        def run(call: Call, x: Any, axes: Any = None, fn: Any = reduction, name: str = name) -> Any:
            chosen = as_ints(axes) if axes is not None else call.ints("axes", None)
            keep = call.flag("keepdims", True)
            nothing = call.flag("noop_with_empty_axes")
            if not chosen and nothing or not x.ndim:
                return _OF_ONE[name](x) if name in _OF_ONE else x
            dims = axes_of(call, chosen, x.ndim) if chosen else list(range(x.ndim))
            return fn(x, dims, keep)

        operator(name, host=(1,))(run)


_enter()


def _place(call: Call, x: Any, run: Any) -> Any:
    keep = call.flag("keepdims", True)
    if not x.ndim:
        call.ignore("axis", "select_last_index")
        return rl.zeros((), dtype="int64", device=x.device)
    axis = axis_of(call, call.int("axis", 0), x.ndim)
    if call.flag("select_last_index"):
        return x.shape[axis] - 1 - run(rl.flip(x, axis), axis, keep)
    return run(x, axis, keep)


@operator("ArgMax")
def arg_max(call: Call, x: Any) -> Any:
    """The place of the first largest element, or of the last with `select_last_index`."""
    return _place(call, x, rl.argmax)


@operator("ArgMin")
def arg_min(call: Call, x: Any) -> Any:
    """The place of the first smallest element, or of the last with `select_last_index`."""
    return _place(call, x, rl.argmin)


@operator("TopK", host=(1,))
def top_k(call: Call, x: Any, k: Any = None) -> Any:
    """The k largest or smallest elements along a dim, and their places."""
    count = int(as_ints(k)[0]) if k is not None else call.int("k")  # type: ignore[index]
    axis = axis_of(call, call.int("axis", -1), x.ndim)
    call.ignore("sorted")
    if not 0 <= count <= x.shape[axis]:
        raise call.fail(f"k is {count}; dim {axis} has the size {x.shape[axis]}")
    values, places = rl.topk(x, count, axis, largest=call.flag("largest", True))
    return [values, places]


def _running(call: Call, x: Any, axis: Any, run: Any, empty: int) -> Any:
    """A running sum or product, whose first element is `empty` when it is exclusive."""
    d = axis_of(call, int(np.asarray(axis).reshape(-1)[0]), x.ndim)
    reverse, exclusive = call.flag("reverse"), call.flag("exclusive")
    if reverse:
        x = rl.flip(x, d)
    out = run(x, d).to(x.dtype)
    if exclusive and x.shape[d]:
        first = rl.full_like(out.narrow(d, 0, 1), empty)
        out = rl.cat([first, out.narrow(d, 0, x.shape[d] - 1)], d)
    return rl.flip(out, d) if reverse else out


@operator("CumSum", host=(1,))
def running_sum(call: Call, x: Any, dim: Any) -> Any:
    """Running sums along a dim."""
    return _running(call, x, dim, rl.cumsum, 0)


@operator("CumProd", host=(1,))
def running_product(call: Call, x: Any, dim: Any) -> Any:
    """Running products along a dim."""
    return _running(call, x, dim, rl.cumprod, 1)


# Operators whose shapes depend on values.


@operator("NonZero", dynamic=True)
def non_zero(call: Call, x: Any) -> Any:
    """The places (dims, count) of elements that are not zero, in order."""
    values = x if isinstance(x, np.ndarray) else x.detach().numpy()
    if not values.ndim:
        return np.zeros((0, int(bool(values))), np.int64)
    return np.array(np.nonzero(values), np.int64)


@operator("Unique", dynamic=True)
def unique(call: Call, x: Any) -> Any:
    """The different elements, or slices of a dim; first places, places among them, counts."""
    values = x if isinstance(x, np.ndarray) else x.detach().numpy()
    axis = axis_of(call, call.int("axis"), values.ndim) if call.has("axis") else None
    if values.dtype.kind == "O":
        values = values.astype(np.str_)
    results = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    different, first, inverse, counts = results
    inverse = np.asarray(inverse).reshape(-1)
    if not call.flag("sorted", True):
        order = np.argsort(first, kind="stable")
        different = np.take(different, order, axis or 0)
        first, counts = first[order], counts[order]
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        inverse = rank[inverse]
    if different.dtype.kind == "U":
        different = different.astype(np.object_)
    call.result_kinds = [call.kinds[0], None, None, None]
    return [different, *(a.astype(np.int64) for a in (first, inverse, counts))]


@operator("Compress", host=(1,))
def compress(call: Call, x: Any, condition: Any) -> Any:
    """The elements, or slices of a dim, where the condition holds."""
    places = np.flatnonzero(condition)
    if call.has("axis"):
        axis = axis_of(call, call.int("axis"), len(x.shape))
    else:
        x, axis = x.reshape(-1), 0
    if isinstance(x, np.ndarray):
        return np.take(x, places, axis)
    return rl.index_select(x, axis, as_tensor(places, x.device))
