"""Reductions: means, variances, norms, products, extremes, order statistics."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from rushlight.core.basis.dtype import PARTS, DType, as_dtype, int64
from rushlight.core.basis.errors import PlaceError, RangeError, ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.comparison import nth_value, sort, values_at
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import maximum, minimum, where
from rushlight.core.ops.common import TensorLike, floating, is_tensor
from rushlight.core.ops.creation import full
from rushlight.core.ops.declare import method, network, public, special
from rushlight.core.ops.join import CAT
from rushlight.core.ops.reduce import (
    AMAX,
    SUM,
    Dims,
    ValuesIndices,
    amax,
    amin,
    argmax,
    argmin,
    count_of,
    dims_of,
    kept_shape,
    sum,
    widened,
)
from rushlight.core.ops.unary import abs, exp, isfinite, isnan, log, sqrt, square, turned
from rushlight.core.tensor.autograd import needs_gradient

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class MinMax(NamedTuple):
    """The smallest and the largest."""

    min: Tensor
    max: Tensor


def _median(x: Tensor, dim: int, keepdim: bool, skip: bool) -> ValuesIndices:
    if x.ndim == 0:
        return ValuesIndices(x.clone(), x.zeros_like(dtype=int64))
    d = normalize_dim("median", dim, x.shape)
    n = x.shape[d]
    if not n:
        raise IndexError(f"median: shape {x.shape} has no elements along dim {dim}")
    ordered = sort(x, d)
    if not x.dtype.is_floating_point:
        return nth_value(ordered, d, (n - 1) // 2, keepdim)
    gone = isnan(x).sum(d, True)
    # nan sorts last, so the last element is nan where any is.
    usual = gone.zeros_like() + (n - 1) // 2
    place = ((n - 1 - gone).clamp(min=0) // 2) if skip else where(gone > 0, n - 1, usual)
    return values_at(ordered, d, place, keepdim)


def _shared(x: Tensor, value: Tensor) -> Tensor:
    """A value of x, whose gradient all elements that are equal to it share, as in torch."""
    if not needs_gradient(x):
        return value
    value = value.detach()
    return amax(x.masked_fill((x != value) & ~(isnan(x) & isnan(value)), -math.inf))


@public
@method()
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or (values, indices) along `dim`; nan if any is nan.

    `x` may not be complex; `keepdim` leaves the dim with size 1. Raises IndexError for a dim that
    there is not.
    """
    return (
        _shared(x, _median(x.reshape(-1), 0, False, False).values)
        if dim is None
        else _median(x, dim, keepdim, False)
    )


@public
@method()
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not nan.

    `x`, `dim` and `keepdim` as there. Raises IndexError for a dim that there is not.
    """
    return (
        _shared(x, _median(x.reshape(-1), 0, False, True).values)
        if dim is None
        else _median(x, dim, keepdim, True)
    )


@public
@method()
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent value along `dim`, the smallest of equally frequent ones, and an index.

    `x` may not be complex; `keepdim` leaves the dim with size 1. Raises IndexError for a dim that
    there is not.
    """
    if x.ndim == 0:
        return ValuesIndices(x.clone(), x.zeros_like(dtype=int64))
    d = normalize_dim("mode", dim, x.shape)
    ordered = sort(x, d)
    v = ordered.values.detach()
    equal = v.unsqueeze(d + 1) == v.unsqueeze(d)
    often = equal.sum(d + 1)
    place = often.argmax(d, True)
    # The last of the equal ones, as torch's cpu gives it; a nan equals nothing, not even itself.
    place = place + (often.gather(d, place) - 1).clamp(min=0)
    return values_at(ordered, d, place, keepdim)


def _quantile(
    name: str,
    x: Tensor,
    q: TensorLike,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    skip: bool,
) -> Tensor:
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"{name}: {x.dtype.name} is not a floating dtype")
    ways = ("linear", "lower", "higher", "midpoint", "nearest")
    if interpolation not in ways:
        raise ValueError(f"{name}: interpolation is {interpolation!r}; supported: {ways}")
    if q.ndim > 1 if is_tensor(q) else not 0 <= q <= 1:  # type: ignore[union-attr, operator]
        raise RangeError(f"{name}: q is {q}; it must be a number from 0 to 1, or 1-d of them")
    rank = x.ndim
    if dim is None:
        x, d = x.reshape(-1), 0
    else:
        d = normalize_dim(name, dim, x.shape)
    if x.ndim == 0:
        x, keepdim = x.reshape(1), False
    n = x.shape[d]
    if not n:
        raise ShapeError(f"{name}: shape {x.shape} has no elements along dim {dim}")
    points = q if is_tensor(q) else full((), q, dtype=x.dtype, device=x.device)  # type: ignore[arg-type]
    sorted_ = x.gather(d, x.detach().argsort(d)).transpose(d, -1)
    gone = isnan(sorted_).sum(-1, True)
    last = (n - 1 - gone).clamp(min=0).to(x.dtype)
    positions = points.reshape(-1) * last  # type: ignore[union-attr]
    low, high = positions.floor(), positions.ceil()
    if interpolation == "lower":
        high = low
    elif interpolation == "higher":
        low = high
    elif interpolation == "nearest":
        low = high = positions.round()
    if is_tensor(q):  # its values are not read: gather refuses a place below 0
        outside = ~((points >= 0) & (points <= 1)).reshape(-1)  # type: ignore[operator, union-attr]
        low, high = (where(outside, -1.0, places) for places in (low, high))
    try:
        a, b = sorted_.gather(-1, low.to(int64)), sorted_.gather(-1, high.to(int64))
    except PlaceError:
        raise RangeError(f"{name}: q is {q}; it must be from 0 to 1") from None
    share = (positions - low) if interpolation != "midpoint" else (positions - low).sign() * 0.5
    result = a + (b - a) * share
    if not skip:
        result = where(gone > 0, math.nan, result).to(x.dtype)
    result = result.transpose(d, -1)
    count = result.shape[d]
    result = result.permute(d, *(i for i in range(result.ndim) if i != d))
    if keepdim:
        rest = [1] * rank if dim is None else [1 if i == d else n for i, n in enumerate(x.shape)]
        result = result.reshape(count, *rest)
    return result if is_tensor(q) and q.ndim else result.reshape(*result.shape[1:])  # type: ignore[union-attr]


@public
@method()
@casts(cpu="float32")
def quantile(
    x: Tensor,
    q: TensorLike,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-th quantiles (0 to 1) along `dim` or of all; a 1-d `q` adds a first dim.

    `x` is floating; `keepdim` leaves the dims with size 1. `interpolation`: "linear", "lower",
    "higher", "nearest" or "midpoint". Raises ValueError for another one and for a q outside 0 to 1,
    IndexError for a dim that there is not.
    """
    return _quantile("quantile", x, q, dim, keepdim, interpolation, False)


@public
@method()
@casts(cpu="float32")
def nanquantile(
    x: Tensor,
    q: TensorLike,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """`quantile` of the elements that are not nan.

    `x`, `q`, `dim`, `keepdim` and `interpolation` as there, and so is what it raises.
    """
    return _quantile("nanquantile", x, q, dim, keepdim, interpolation, True)


@public
@method()
def nansum(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """`sum` with nan as zero.

    `x`, `dim`, `keepdim` and `dtype` are those of sum. Raises IndexError for a dim that there is
    not.
    """
    x = x if not x.dtype.is_floating_point else where(isnan(x), 0.0, x).to(x.dtype)
    return sum(x, dim, keepdim, dtype=dtype)


@public
@method()
def nanmean(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """`mean` of the elements that are not nan.

    `x`, `dim`, `keepdim` and `dtype` are those of mean. Raises IndexError for a dim that there is
    not.
    """
    x = x if dtype is None else x.to(as_dtype(dtype))
    return nansum(x, dim, keepdim) / (~isnan(x)).sum(dim, keepdim).to(x.dtype)


@public
@method()
def count_nonzero(x: Tensor, dim: Dims = None) -> Tensor:
    """The number of elements that are not zero, int64."""
    return (x != 0).sum(dim)


@public
@method()
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """(min, max) over `dim` or of all.

    `x` may not be complex; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    if dim is not None and x.ndim and not x.shape[normalize_dim("aminmax", dim, x.shape)]:
        raise IndexError(f"aminmax: dim {dim} of {x.shape} has no elements")
    return MinMax(amin(x, dim, keepdim), amax(x, dim, keepdim))


@public
def var_mean(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over `dim`; see `var`.

    `x`, `unbiased`, `correction` and `keepdim` as there, and so is what it raises.
    """
    variance = var(x, dim, unbiased, keepdim, correction=correction)
    return variance, mean(x, None if isinstance(dim, bool) else dim, keepdim)


@public
def std_mean(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over `dim`; see `var`.

    `x`, `unbiased`, `correction` and `keepdim` as there, and so is what it raises.
    """
    deviation = std(x, dim, unbiased, keepdim, correction=correction)
    return deviation, mean(x, None if isinstance(dim, bool) else dim, keepdim)


@public
@method()
@casts(accelerator="float32")
def dist(x: Tensor, other: TensorLike, p: float = 2) -> Tensor:
    """The p-norm of x - other.

    Raises ShapeError for shapes that do not broadcast.
    """
    return (x - other).norm(p)


def _mean_input(name: str, x: Tensor) -> Tensor:
    if x.dtype.kind not in "fc":
        raise TypeMismatch(
            f"{name}: {x.dtype.name} is not a floating dtype; use x.float().{name}()"
        )
    return x


@public
@method()
def mean(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """Mean over `dim`; nan over no elements. TypeError for integers without a `dtype`.

    `x` is converted to dtype first; `keepdim` leaves the dims with size 1. Raises IndexError for a
    dim that there is not.
    """
    x = x if dtype is None else x.to(as_dtype(dtype))
    dims = dims_of("mean", dim, _mean_input("mean", x))
    return (SUM(widened(x), dim=dims, keepdim=keepdim) / count_of(x, dims)).to(x.dtype)


@public
@method()
def var(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance over `dim`, the squared deviations divided by count - correction.

    correction: 1 by default, 0 for `unbiased=False`, which may also stand in the place of `dim`.

    `x` is floating or complex; `keepdim` leaves the dims with size 1. Raises IndexError for a dim
    that there is not, TypeError for integers.
    """
    return _var(_mean_input("var", x), dim, unbiased, correction, keepdim).to(_part(x))


def _part(x: Tensor) -> DType:
    return PARTS.get(x.dtype, x.dtype)


def _square(x: Tensor) -> Tensor:
    """|x| squared."""
    return square(x) if x.dtype.kind == "f" else (x * turned(x)).real


def _var(
    x: Tensor, dim: Any, unbiased: bool | None, correction: float | None, keepdim: bool
) -> Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError("var: give unbiased or correction, not both")
    less = correction if correction is not None else 0 if unbiased is False else 1
    dims = dims_of("var", dim, x)
    count = builtins.max(count_of(x, dims) - less, 0)
    wide = widened(x)
    total = SUM(_square(wide - mean(wide, dims, True)), dim=dims, keepdim=keepdim)
    return total / count


@public
@method()
def std(
    x: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation over `dim`: the square root of `var`.

    `x`, `unbiased`, `correction` and `keepdim` as there. Raises IndexError for a dim that there is
    not, TypeError for integers.
    """
    return _root(_var(_mean_input("std", x), dim, unbiased, correction, keepdim), 2).to(_part(x))


def _root(x: Tensor, p: float) -> Tensor:
    """x ** (1 / p) for x >= 0, with gradient zero at zero, as in torch's norms."""
    zero = x == 0
    if x.requires_grad:
        x = x.masked_fill(zero, 1)
    out: Tensor = sqrt(x) if p == 2 else x ** (1 / p)
    return out.masked_fill(zero, 0) if out.requires_grad else out


@public
@method()
@casts(accelerator="float32")
def norm(
    x: Tensor,
    p: float | str | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | str | None = None,
) -> Tensor:
    """The p-norm of the elements over `dim`: (sum |x|^p)^(1/p).

    p may be infinite (the largest or the smallest |x|); p = 0 counts non-zero elements; "fro" is 2;
    "nuc" is the sum of the singular values of matrices.

    `keepdim` leaves the dims with size 1. `dtype`: x is converted to it first. Raises ValueError
    for another text, IndexError for a dim that there is not.
    """
    x = x if dtype is None else x.to(as_dtype(dtype))
    p = 2 if p is None or p == "fro" else p
    if p == "nuc":
        from rushlight.core.functional.linalg.norms import matrix_norm

        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str):
        raise ValueError(f'norm: p is {p!r}; supported: numbers, "fro" and "nuc"')
    x = floating("norm", x)
    if math.isinf(p):
        return (amax if p > 0 else amin)(abs(x), dim, keepdim)
    dims, wide = dims_of("norm", dim, x), widened(x)
    if x.dtype.kind == "c" and p != 2:
        wide = x = abs(x)
    if p == 0:
        # The count keeps the graph, with gradient zero, as in torch.
        return SUM(where(wide != 0, 1.0, wide * 0), dim=dims, keepdim=keepdim).to(x.dtype)
    if p == 1:
        return SUM(abs(wide), dim=dims, keepdim=keepdim).to(x.dtype)
    parts = _square(wide) if p == 2 else _power(wide, p)
    return _root(SUM(parts, dim=dims, keepdim=keepdim), p).to(_part(x))


def _power(x: Tensor, p: float) -> Tensor:
    """|x| ** p, with gradient zero at zero also where p < 1 makes it infinite, as in torch."""
    zero = x == 0
    return (abs(x.masked_fill(zero, 1)) ** p).masked_fill(zero, 0 if p > 0 else math.inf)


@network
@casts(accelerator="float32")
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """`input` divided by its p-norm along `dim`, or by `eps` where that is larger; same shape.

    Raises IndexError for a dim that there is not.
    """
    return input / input.norm(p, dim, True).clamp(min=eps)


@public
@method()
@casts("float32")
def prod(
    x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """Product along `dim`, or of all elements; integers and booleans give int64.

    `x` is converted to `dtype` first; `keepdim` leaves the dims with size 1. Raises IndexError for
    a dim that there is not.
    """
    if dtype is not None:
        x = x.to(as_dtype(dtype))
    elif x.dtype.kind in "bui":
        x = x.to(int64)
    if dim is None:
        flat = prod(x.reshape(-1), 0)
        return flat.reshape(*[1] * x.ndim) if keepdim else flat
    d = normalize_dim("prod", dim, x.shape)
    if x.ndim == 0:
        return x.clone()
    if x.dtype.is_floating_point and x.dtype.itemsize < 4:
        return prod(widened(x), d, keepdim).to(x.dtype)
    if x.shape[d] < 2:
        return SUM(x, dim=(d,), keepdim=keepdim) + (1 - x.shape[d])
    shape = kept_shape(x, (d,), keepdim)
    # Pairwise halving: exact gradients of every order, also where elements are zero.
    while x.shape[d] > 1:
        half = x.shape[d] // 2
        pair = x.narrow(d, 0, half) * x.narrow(d, half, half)
        rest = x.narrow(d, 2 * half, x.shape[d] - 2 * half)
        x = pair if rest.shape[d] == 0 else CAT(pair, rest, dim=d)
    return x.reshape(*shape)


@public
@special("logsumexp")
@method()
@casts(accelerator="float32")
def logsumexp(x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim` without overflow.

    `keepdim` leaves the dims with size 1. Raises IndexError for a dim that there is not.
    """
    x = floating("logsumexp", x)
    dims = dims_of("logsumexp", dim, x)
    wide = widened(x)
    if count_of(x, dims) == 0:
        return log(SUM(wide, dim=dims, keepdim=keepdim)).to(x.dtype)
    top = wide.detach().real if wide.dtype.is_complex else wide.detach()
    top = AMAX(top, dim=dims, keepdim=True)
    top = top.where(isfinite(top), 0.0).to(wide.dtype)
    out = (log(SUM(exp(wide - top), dim=dims, keepdim=True)) + top).to(x.dtype)
    return out if keepdim else out.reshape(*kept_shape(x, dims, False))


@overload
def max(x: Tensor, dim: Tensor | None = None, keepdim: bool = False) -> Tensor: ...


@overload
def max(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...


@public
@method()
def max(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The largest element; with `dim`, (values, indices) along it; the first of equal ones.

    A tensor in the place of `dim`: `maximum` of both.

    `x` may not be complex; `keepdim` leaves the dim with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    if is_tensor(dim):
        return maximum(x, dim)
    return amax(x) if dim is None else _picked(argmax, x, dim, keepdim)


@overload
def min(x: Tensor, dim: Tensor | None = None, keepdim: bool = False) -> Tensor: ...


@overload
def min(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...


@public
@method()
def min(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The smallest element; with `dim`, (values, indices) along it; the first of equal ones.

    A tensor in the place of `dim`: `minimum` of both.

    `x` may not be complex; `keepdim` leaves the dim with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    if is_tensor(dim):
        return minimum(x, dim)
    return amin(x) if dim is None else _picked(argmin, x, dim, keepdim)


def _picked(arg: Callable[..., Tensor], x: Tensor, dim: int, keepdim: bool) -> ValuesIndices:
    if x.ndim == 0:
        return ValuesIndices(x.clone(), arg(x, dim))
    index = arg(x, dim, True)
    values = x.gather(dim, index)
    if keepdim:
        return ValuesIndices(values, index)
    return ValuesIndices(values.squeeze(dim), index.squeeze(dim))
