"""NumPy kernels of the ops that create, reduce, move, index and sort elements.

A kernel is `fn(out, *inputs, **attrs)` and writes all of `out`, which may share memory with the
first input (the in-place forms).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.basis import philox
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import RangeError

Array = npt.NDArray[Any]
Kernel = Callable[..., None]
Pads = tuple[tuple[int, int], ...]
Ranges = tuple[tuple[int, int, int], ...]


def _full(out: Array, *, value: Any, shape: Any, dtype: DType) -> None:
    try:
        out[...] = value
    except (OverflowError, ValueError):
        raise ValueError(f"{value} does not fit dtype {dtype.name}") from None


def _arange(out: Array, *, start: Any, step: Any, count: int, dtype: DType) -> None:
    integral = isinstance(start, int) and isinstance(step, int)
    index = np.arange(count, dtype=np.int64 if integral else np.float64)
    np.copyto(out, index * step + start, casting="unsafe")


def _copy(out: Array, x: Array, **_: Any) -> None:
    np.copyto(out, x)


def _chain(out: Array, *inputs: Array, steps: tuple[tuple[str, int, int], ...]) -> None:
    values: list[Array] = []
    for name, *operands in steps:
        op = ELEMENTWISE[name]
        read = (values[~i] if i < 0 else inputs[i - 1] for i in operands[: op.arity])
        values.append(np.empty_like(out))
        op.numpy(*read, out=values[-1])
    out[...] = values[-1]


def _reduce(fn: Callable[..., Any]) -> Kernel:
    def kernel(out: Array, x: Array, *, dim: tuple[int, ...], keepdim: bool) -> None:
        if dim:
            fn(x, axis=dim, keepdims=keepdim, out=out)
        else:
            np.copyto(out, x, casting="unsafe")

    return kernel


def _sum(out: Array, x: Array, *, dim: tuple[int, ...], keepdim: bool) -> None:
    np.sum(x, axis=dim, keepdims=keepdim, dtype=out.dtype, out=out)


def _logical(fn: Callable[..., Any]) -> Kernel:
    def kernel(out: Array, x: Array, *, dim: tuple[int, ...], keepdim: bool) -> None:
        out[...] = fn(x != 0, axis=dim, keepdims=keepdim)

    return kernel


def _arg(fn: Callable[..., Any]) -> Kernel:
    def kernel(out: Array, x: Array, *, dim: int, keepdim: bool) -> None:
        out[...] = fn(x, axis=dim, keepdims=keepdim)

    return kernel


def _cumsum(out: Array, x: Array, *, dim: int) -> None:
    np.cumsum(x, axis=dim, out=out)


def _region(ranges: Ranges) -> tuple[Any, ...]:
    # With the Ellipsis, indexing a 0-d array gives a view instead of a scalar.
    return (*(slice(*r) for r in ranges), ...)


def _slice_backward(out: Array, g: Array, *, shape: Any, ranges: Ranges) -> None:
    out[...] = 0
    out[_region(ranges)] = g


def _unfold_backward(
    out: Array, g: Array, *, length: int, dim: int, size: int, step: int, dilation: int
) -> None:
    out[...] = 0
    windows = g.shape[dim]
    for k in range(size):
        region = [slice(None)] * out.ndim
        region[dim] = slice(k * dilation, k * dilation + (windows - 1) * step + 1, step)
        out[tuple(region)] += g[..., k]


def _cat(out: Array, *xs: Array, dim: int) -> None:
    np.concatenate(xs, axis=dim, out=out)


def _flip(out: Array, x: Array, *, dims: tuple[int, ...]) -> None:
    np.copyto(out, np.flip(x, dims))


def _pad(out: Array, x: Array, *, pads: Pads, value: Any) -> None:
    out[...] = value
    out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pads, strict=True))] = x


def within(name: str, index: Array, size: int, least: int = 0) -> Array:
    """A copy of `index` as int64; IndexError for a value that is not from `least` to size - 1.

    A copy, because another thread may write to `index` once it is checked.
    """
    index = index.astype(np.int64)
    if index.size:
        low, high = int(index.min()), int(index.max())
        if low < least or high >= size:
            bad = low if low < least else high
            raise IndexError(f"{name}: index {bad} is out of range for size {size}")
    return index


def _front(x: Array, shape: tuple[int, ...], dim: int) -> Array:
    return x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(shape))]


def _gather(
    out: Array, x: Array, index: Array, *, dim: int, blamed: str = "gather", refusal: str = ""
) -> None:
    if refusal and index.size and int(index.max()) >= x.shape[dim]:
        raise RangeError(refusal)
    i = within(blamed, index, x.shape[dim])
    out[...] = np.take_along_axis(_front(x, index.shape, dim), i, axis=dim)


def _scatter(out: Array, x: Array, index: Array, src: Array, *, dim: int) -> None:
    i = within("scatter", index, x.shape[dim])
    np.copyto(out, x)
    np.put_along_axis(_front(out, index.shape, dim), i, src, axis=dim)


def _scatter_add(out: Array, x: Array, index: Array, src: Array, *, dim: int) -> None:
    i = within("scatter_add", index, x.shape[dim])
    np.copyto(out, x)
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = i
    np.add.at(out, tuple(grid), src)


def _index_select(out: Array, x: Array, index: Array, *, dim: int) -> None:
    out[...] = np.take(x, within("index_select", index, x.shape[dim]), axis=dim)


def _index_add(out: Array, x: Array, index: Array, source: Array, *, dim: int) -> None:
    i = within("index_add", index, x.shape[dim])
    np.copyto(out, x)
    np.add.at(np.moveaxis(out, dim, 0), i, np.moveaxis(source, dim, 0))


def _embedding(out: Array, weight: Array, index: Array) -> None:
    out[...] = weight[within("embedding", index, weight.shape[0])]


def _ravel_index(out: Array, *index: Array, sizes: tuple[int, ...]) -> None:
    flat = np.zeros(out.shape, np.int64)
    for i, size in zip(index, sizes, strict=True):
        place = within("index", i, size, -size)
        flat = flat * size + np.where(place < 0, place + size, place)
    out[...] = flat


def _assign(out: Array, x: Array, value: Array, *, ranges: Ranges, shape: Any) -> None:
    copy = np.array(value) if np.may_share_memory(out, value) else value
    np.copyto(out, x)
    region = out[_region(ranges)]
    # The same elements, with dims of size one added or removed.
    region[...] = copy.reshape(region.shape)


def _put(out: Array, x: Array, index: Array, value: Array) -> None:
    np.copyto(out, x)
    if index.size:
        out[np.unravel_index(index, out.shape)] = value


def _argsort(out: Array, x: Array, *, dim: int, descending: bool) -> None:
    if not descending:
        out[...] = np.argsort(x, axis=dim, kind="stable")
        return
    # Sorting the reversed row and reversing the result keeps the order of equal elements.
    n = x.shape[dim]
    order = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    out[...] = np.flip(n - 1 - order, dim)


def _topk(out: Array, x: Array, *, k: int, dim: int, largest: bool) -> None:
    order = np.empty(x.shape, np.int64)
    _argsort(order, x, dim=dim, descending=largest)
    out[...] = np.take(order, np.arange(k), axis=dim)


def _rand(out: Array, *, shape: Any, dtype: DType, seed: int, offset: int) -> None:
    drawn = philox.uniform(seed, offset, out.size, philox.UNIFORM_BITS.get(dtype.name, 24))
    np.copyto(out, drawn.reshape(out.shape), casting="unsafe")


def _randn(out: Array, *, shape: Any, dtype: DType, seed: int, offset: int) -> None:
    np.copyto(out, philox.normal(seed, offset, out.size).reshape(out.shape), casting="unsafe")


def _randint(
    out: Array, *, low: int, high: int, shape: Any, dtype: DType, seed: int, offset: int
) -> None:
    word = philox.words(seed, offset, out.size).astype(np.uint64)
    scaled = (word * np.uint64(high - low)) >> np.uint64(32)
    np.copyto(out, (scaled.astype(np.int64) + low).reshape(out.shape), casting="unsafe")


# Ops that copy bits without arithmetic, for any dtype.
MOVES = frozenset(
    {
        "full", "copy", "slice_backward", "cat", "flip", "pad", "gather", "scatter",
        "index_select", "embedding", "assign", "put", "where",
    }
)  # fmt: skip


def _where(out: Array, condition: Array, a: Array, b: Array) -> None:
    out[...] = np.where(condition, a, b)


KERNELS: dict[str, Kernel] = {
    "full": _full,
    "arange": _arange,
    "copy": _copy,
    "chain": _chain,
    "where": _where,
    "sum": _sum,
    "amax": _reduce(np.max),
    "amin": _reduce(np.min),
    "any": _logical(np.any),
    "all": _logical(np.all),
    "argmax": _arg(np.argmax),
    "argmin": _arg(np.argmin),
    "cumsum": _cumsum,
    "slice_backward": _slice_backward,
    "unfold_backward": _unfold_backward,
    "cat": _cat,
    "flip": _flip,
    "pad": _pad,
    "gather": _gather,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "index_select": _index_select,
    "index_add": _index_add,
    "embedding": _embedding,
    "ravel_index": _ravel_index,
    "assign": _assign,
    "put": _put,
    "argsort": _argsort,
    "topk": _topk,
    "rand": _rand,
    "randn": _randn,
    "randint": _randint,
}
