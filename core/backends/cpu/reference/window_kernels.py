"""NumPy kernels of the largest elements of windows, and of weighted elements along a dim."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Triple = tuple[int, int, int]


def _part(tap: int, stride: int, padding: int, n: int, out: int) -> tuple[slice, slice]:
    """The windows whose element at `tap` lies in n elements, and these elements."""
    start = tap - padding
    first = max(0, -(start // stride))
    last = max(first, min(out, (n - 1 - start) // stride + 1))
    begin = start + first * stride
    stop = begin + (last - first - 1) * stride + 1
    return slice(first, last), slice(begin, max(stop, begin), stride)


def _window_argmax(out: Array, x: Array, **windows: Any) -> None:
    _best(out, np.zeros(out.shape, x.dtype), x, **windows)


def _window_max(out: Array, x: Array, **windows: Any) -> None:
    kind = out.dtype.kind
    out[...] = False if kind == "b" else -np.inf if kind == "f" else np.iinfo(out.dtype).min
    _best(np.empty(out.shape, np.int64), out, x, **windows)


def _best(
    out: Array,
    best: Array,
    x: Array,
    *,
    kernel: Triple,
    stride: Triple,
    padding: Triple,
    dilation: Triple,
    **_: Any,
) -> None:
    sizes = x.shape[1:]
    out[...] = -1
    flat = np.arange(sizes[0] * sizes[1] * sizes[2]).reshape(1, *sizes)
    for tap in product(*map(range, kernel)):
        parts = [
            _part(t * dilation[i], stride[i], padding[i], sizes[i], out.shape[1 + i])
            for i, t in enumerate(tap)
        ]
        if any(target.start == target.stop for target, _ in parts):
            continue
        to = (slice(None), *(target for target, _ in parts))
        seen = (slice(None), *(taken for _, taken in parts))
        value, top, places = x[seen], best[to], out[to]
        larger = (value > top) | (value != value) | (places < 0)
        np.copyto(top, value, where=larger)
        np.copyto(places, flat[seen], where=larger)


def _resample(out: Array, x: Array, at: Array, weight: Array, *_: Array, dim: int) -> None:
    out[...] = 0
    to, source = np.moveaxis(out, dim, 0), np.moveaxis(x, dim, 0)
    weights = weight.view("f4" if weight.dtype == np.int32 else "f8")
    for places, by in zip(at.T, weights.T, strict=True):
        used = places >= 0
        to[used] += source[places[used]] * by[used].reshape(-1, *[1] * (x.ndim - 1))


KERNELS: dict[str, Callable[..., None]] = {
    "window_argmax": _window_argmax,
    "window_max": _window_max,
    "resample": _resample,
}
