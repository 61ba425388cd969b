"""Sums, order statistics, searching, sorting and sets."""

from __future__ import annotations

from math import prod as prod_of
from typing import Any, NamedTuple

from rushlight.core.array_api.common import F, Function, dims, promoted
from rushlight.core.tensor.tensor import Tensor

_REDUCTIONS = "all any max=amax min=amin mean sum"
__all__ = ["argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod", "cumulative_sum",
           "diff", "nonzero", "prod", "searchsorted", "sort", "std", "unique_all", "unique_counts",
           "unique_inverse", "unique_values", "var", "where",
           *(n.partition("=")[0] for n in _REDUCTIONS.split())]  # fmt: skip


def _reduction(name: str, fn: Function) -> Function:
    def call(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, **kw: Any) -> Any:
        over = dims(axis, x.ndim)
        if x.dtype.kind == "c" and name in ("all", "any"):
            x = x != 0
        elif x.dtype.kind == "c" and name == "mean":
            return F["sum"](x, over, keepdims) / prod_of([x.shape[d] for d in over])
        return fn(x, over, keepdims, **kw)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = fn.__doc__
    return call


for _name in _REDUCTIONS.split():
    _name, _, _torch = _name.partition("=")
    globals()[_name] = _reduction(_name, F[_torch or _name])


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over these dims, or over all; integers give int64."""
    for d in sorted(dims(axis, x.ndim), reverse=True):
        x = x.prod(d, keepdims, dtype=dtype)
    return x if dtype is None else x.to(dtype)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The mean square distance from the mean; `correction` is taken off the count."""
    return x.var(dims(axis, x.ndim), keepdim=keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The root of `var`."""
    return x.std(dims(axis, x.ndim), keepdim=keepdims, correction=correction)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, as int64."""
    return (x != 0).sum(dims(axis, x.ndim), keepdims)


def _arg(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    out: Tensor = F[name](x.reshape(-1) if axis is None else x, axis or 0, keepdims)
    return out.reshape((1,) * x.ndim) if axis is None and keepdims else out


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest element."""
    return _arg("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest element."""
    return _arg("argmin", x, axis, keepdims)


def _cumulative(
    name: str, x: Tensor, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: shape {x.shape} has {x.ndim} dims; say which by axis=")
        axis = 0
    out: Tensor = F[name](x, axis, dtype=dtype)
    if include_initial:
        first = F["zeros" if name == "cumsum" else "ones"]
        size = [1 if d == axis % x.ndim else n for d, n in enumerate(x.shape)]
        out = F["cat"]([first(size, dtype=out.dtype, device=x.device), out], axis)
    return out


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Sums of the elements up to each; include_initial puts a zero first."""
    return _cumulative("cumsum", x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Products of the elements up to each; include_initial puts a one first."""
    return _cumulative("cumprod", x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Any:
    """Differences of neighbours, n times over."""
    return F["diff"](x, n, axis, prepend, append)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of elements that are not zero, a tensor for each dim."""
    if not x.ndim:
        raise ValueError("nonzero: a 0-d tensor has no index")
    return tuple(F["nonzero"](x, as_tuple=True))


def searchsorted(
    x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where the elements of x2 go in sorted x1."""
    first, second = promoted(x1, x2)
    out: Tensor = F["searchsorted"](first, second, side=side, sorter=sorter)
    return out


def where(condition: Tensor, x1: Any, x2: Any, /) -> Any:
    """x1 where the condition holds, x2 elsewhere, in one dtype."""
    return F["where"](condition, *promoted(x1, x2))


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along `axis`."""
    return x.sort(axis, descending, stable=stable)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort x along `axis`."""
    return x.argsort(axis, descending, stable=stable)


class UniqueAll(NamedTuple):
    """values: sorted. indices: of the first of each. inverse_indices: of x's shape. counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """values: sorted. counts: how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """values: sorted. inverse_indices: for each element its place among them."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements, where each is first, their places in x, and how many there are."""
    values, inverse, counts = F["unique"](x.reshape(-1), return_inverse=True, return_counts=True)
    first = F["cumsum"](counts, 0) - counts
    order = F["argsort"](inverse, 0, stable=True)
    return UniqueAll(values, order[first], inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how many of each there are."""
    return UniqueCounts(*F["unique"](x.reshape(-1), return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and the place of each element of x among them."""
    values, inverse = F["unique"](x.reshape(-1), return_inverse=True)
    return UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements, sorted."""
    out: Tensor = F["unique"](x.reshape(-1))
    return out
