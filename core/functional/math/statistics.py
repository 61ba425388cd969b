"""Order statistics, statistics without nan, counts and unique elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.dtype import DType, as_dtype, float64, int32, int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.fourier.parts import complex
from rushlight.core.functional.picking import sort
from rushlight.core.functional.reductions import mean, std, var
from rushlight.core.jit import capture
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import TensorLike, floating, is_tensor
from rushlight.core.ops.creation import full, zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.reduce import Dims, ValuesIndices, amax, amin, sum
from rushlight.core.ops.unary import isnan

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class MinMax(NamedTuple):
    """The smallest and the largest."""

    min: Tensor
    max: Tensor


def _at(found: ValuesIndices, d: int, place: Tensor, keepdim: bool) -> ValuesIndices:
    """Values and indices at places (1 along d)."""
    values, indices = found.values.gather(d, place), found.indices.gather(d, place)
    if keepdim:
        return ValuesIndices(values, indices)
    return ValuesIndices(values.squeeze(d), indices.squeeze(d))


def _nth(found: ValuesIndices, d: int, k: int, keepdim: bool) -> ValuesIndices:
    place = found.indices.narrow(d, 0, 1).zeros_like() + k
    return _at(found, d, place, keepdim)


@public
@method()
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest along `dim`, counted from 1, and its index."""
    if x.ndim == 0:
        x, dim, keepdim = x.reshape(1), 0, False
    d = normalize_dim("kthvalue", dim, x.shape)
    if not 1 <= k <= x.shape[d]:
        raise ShapeError(f"kthvalue: k is {k}; dim {dim} has {x.shape[d]} elements")
    return _nth(sort(x, d), d, k - 1, keepdim)


def _median(x: Tensor, dim: int, keepdim: bool, skip: bool) -> ValuesIndices:
    if x.ndim == 0:
        return ValuesIndices(x.clone(), x.zeros_like(dtype=int64))
    d = normalize_dim("median", dim, x.shape)
    n = x.shape[d]
    if not n:
        raise IndexError(f"median: shape {x.shape} has no elements along dim {dim}")
    found = sort(x, d)
    if not x.dtype.is_floating_point:
        return _nth(found, d, (n - 1) // 2, keepdim)
    gone = isnan(x).sum(d, True)
    # nan sorts last, so the last element is nan where any is.
    usual = gone.zeros_like() + (n - 1) // 2
    place = ((n - 1 - gone).clamp(min=0) // 2) if skip else where(gone > 0, n - 1, usual)
    return _at(found, d, place, keepdim)


@public
@method()
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or (values, indices) along `dim`; nan if any is nan."""
    return _median(x.reshape(-1), 0, False, False).values if dim is None else _median(
        x, dim, keepdim, False)  # fmt: skip


@public
@method()
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not nan."""
    return _median(x.reshape(-1), 0, False, True).values if dim is None else _median(
        x, dim, keepdim, True)  # fmt: skip


@public
@method()
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent value along `dim`, the smallest of equally frequent ones, and an index."""
    if x.ndim == 0:
        return ValuesIndices(x.clone(), x.zeros_like(dtype=int64))
    d = normalize_dim("mode", dim, x.shape)
    found = sort(x, d)
    v = found.values.detach()
    equal = v.unsqueeze(d + 1) == v.unsqueeze(d)
    place = equal.sum(d + 1).argmax(d, True)
    # The last of the equal ones, as torch's cpu gives it.
    count = equal.sum(d + 1).gather(d, place)
    place = place + count - 1
    return _at(found, d, place, keepdim)


def _quantile(
    name: str, x: Tensor, q: TensorLike, dim: int | None, keepdim: bool, interpolation: str,
    skip: bool,
) -> Tensor:  # fmt: skip
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"{name}: {x.dtype.name} is not a floating dtype")
    ways = ("linear", "lower", "higher", "midpoint", "nearest")
    if interpolation not in ways:
        raise ValueError(f"{name}: interpolation is {interpolation!r}; supported: {ways}")
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
    at = points.reshape(-1) * last  # type: ignore[union-attr]
    low, high = at.floor(), at.ceil()
    if interpolation == "lower":
        high = low
    elif interpolation == "higher":
        low = high
    elif interpolation == "nearest":
        low = high = at.round()
    a, b = sorted_.gather(-1, low.to(int64)), sorted_.gather(-1, high.to(int64))
    share = (at - low) if interpolation != "midpoint" else (at - low).sign() * 0.5
    found = a + (b - a) * share
    if not skip:
        found = where(gone > 0, math.nan, found).to(x.dtype)
    found = found.transpose(d, -1)
    count = found.shape[d]
    found = found.permute(d, *(i for i in range(found.ndim) if i != d))
    if keepdim:
        rest = [1] * rank if dim is None else [1 if i == d else n for i, n in enumerate(x.shape)]
        found = found.reshape(count, *rest)
    return found if is_tensor(q) and q.ndim else found.reshape(*found.shape[1:])  # type: ignore[union-attr]


@public
@method()
def quantile(
    x: Tensor, q: TensorLike, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """The q-th quantiles (0 to 1) along `dim` or of all; a 1-d `q` adds a first dim."""
    return _quantile("quantile", x, q, dim, keepdim, interpolation, False)


@public
@method()
def nanquantile(
    x: Tensor, q: TensorLike, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """`quantile` of the elements that are not nan."""
    return _quantile("nanquantile", x, q, dim, keepdim, interpolation, True)


@public
@method()
def nansum(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """`sum` with nan as zero."""
    x = x if not x.dtype.is_floating_point else where(isnan(x), 0.0, x).to(x.dtype)
    return sum(x, dim, keepdim, dtype=dtype)


@public
@method()
def nanmean(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """`mean` of the elements that are not nan."""
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
    """(min, max) over `dim` or of all."""
    if dim is not None and x.ndim and not x.shape[normalize_dim("aminmax", dim, x.shape)]:
        raise IndexError(f"aminmax: dim {dim} of {x.shape} has no elements")
    return MinMax(amin(x, dim, keepdim), amax(x, dim, keepdim))


@public
def var_mean(
    x: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(variance, mean) over `dim`; see `var`."""
    found = var(x, dim, unbiased, keepdim, correction=correction)
    return found, mean(x, None if isinstance(dim, bool) else dim, keepdim)


@public
def std_mean(
    x: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(standard deviation, mean) over `dim`; see `var`."""
    found = std(x, dim, unbiased, keepdim, correction=correction)
    return found, mean(x, None if isinstance(dim, bool) else dim, keepdim)


@public
@method()
def cov(
    x: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Covariances of the rows of x (variables, observations)."""
    if x.ndim > 2:
        raise ShapeError(f"cov: x is {x.shape}; it must have at most 2 dims")
    x = floating("cov", x)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None and given.shape != rows.shape[1:]:
            raise ShapeError(f"cov: {name} is {given.shape}; it must be {rows.shape[1:]}")
        if given is not None and (name == "fweights") is given.dtype.is_floating_point:
            raise TypeMismatch(f"cov: {name} is {given.dtype.name}; fweights are integers, "
                               "aweights floating")  # fmt: skip
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given if weights is None else weights * given
    if weights is None:
        count: Any = rows.shape[1] - correction
        centred = rows - rows.mean(1, True)
        found = centred @ centred.mH / max(count, 0)
    else:
        if not capture.active:  # reading a flag would end the capture
            for name, given in (("fweights", fweights), ("aweights", aweights)):
                if given is not None and (given < 0).any().item():
                    raise ValueError(f"cov: {name} has negative numbers")
        total = weights.sum()  # in the dtype of the weights, as in torch
        centred = rows - (rows * weights).sum(1, True) / total
        used = total if aweights is None else (weights * aweights).sum() / total
        count = total - correction * (1.0 if aweights is None else used)
        found = (centred * weights) @ centred.mH / count.clamp(min=0)
    result: Tensor = found.reshape() if rows.shape[0] == 1 else found
    return result


@public
@method()
def corrcoef(x: Tensor) -> Tensor:
    """Correlations of the rows of x (variables, observations), within [-1, 1]."""
    found = cov(x)
    if found.ndim == 0:
        return found / found
    scale = found.diagonal().sqrt()
    found = found / scale.unsqueeze(1) / scale
    if found.dtype.is_complex:
        return complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


@public
@method()
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs in 1-d x, or the sums of its weights; reads the largest."""
    if x.ndim != 1 or x.dtype.kind not in "ui":
        raise ShapeError(f"bincount: x is {x.dtype.name} {x.shape}; it must be 1-d integers")
    if x.numel() and int(x.amin().item()) < 0:
        raise ValueError("bincount: x has negative numbers")
    count = max(minlength, int(x.amax().item()) + 1 if x.numel() else 0)
    ones = x.ones_like(dtype=int64) if weights is None else weights
    if not ones.dtype.is_floating_point and weights is not None:
        ones = ones.to(float64)
    return zeros(count, dtype=ones.dtype, device=x.device).index_add(0, x.to(int64), ones)


@public
@method()
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in `bins` equal parts of [min, max], of the range of x where both are 0."""
    if min == max == 0 and x.numel():
        min, max = float(x.amin().item()), float(x.amax().item())
    if min == max:
        min, max = min - 1, max + 1
    flat = x.reshape(-1)
    place = ((flat - min) * bins / (max - min)).floor().clamp(0, bins - 1)
    inside = (flat >= min) & (flat <= max)
    place = where(inside, place, 0.0).to(int64)
    counts = zeros(bins, dtype=x.dtype, device=x.device)
    return counts.index_add(0, place, inside.to(x.dtype))


def _tensor(value: Any, like: Tensor) -> Tensor:
    made: Tensor = value
    return made if is_tensor(value) else full((), value, dtype=like.dtype, device=like.device)


_COUNTED = 1 << 12  # the most comparisons that are cheaper than the steps of halving


def _smaller(rows: Tensor, x: Tensor, after: bool) -> Tensor:
    """How many elements of its row are smaller than each of x, or equal to it if `after`."""
    each = rows if rows.ndim == 1 else rows.unsqueeze(-2)
    found = x.unsqueeze(-1)
    less = (each <= found) if after else (each < found)
    if rows.dtype.is_floating_point:  # nan is behind all numbers
        last = isnan(found) if after else isnan(found) & ~isnan(each)
        less = less | last
    return less.sum(-1)


@public
def searchsorted(
    sorted_sequence: Tensor, input: TensorLike, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where each of `input` would stand in sorted rows: before equal ones, after if `right`."""
    after = right if side is None else side == "right"
    rows = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    x = _tensor(input, rows)
    if rows.ndim > 1 and rows.shape[:-1] != x.shape[:-1]:
        raise ShapeError(f"searchsorted: {rows.shape} and {x.shape} differ before the last dim")
    n = rows.shape[-1]
    if n * x.numel() <= _COUNTED:
        low = _smaller(rows, x, after)
        return low.to(int32) if out_int32 else low
    # Halving: a place moves right where the element there is smaller.
    low = x.zeros_like(dtype=int64)
    high = low + n
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        at = middle.clamp(max=max(n - 1, 0))
        found = rows[at] if rows.ndim == 1 else rows.gather(-1, at)
        less = (found <= x) if after else (found < x)
        if rows.dtype.is_floating_point:
            less = less | (~isnan(found) & isnan(x)) | (isnan(found) & isnan(x) & after)
        moves = less & (low < high)
        stays = ~less & (low < high)
        low, high = where(moves, middle + 1, low), where(stays, middle, high)
    return low.to(int32) if out_int32 else low


@public
def bucketize(
    input: TensorLike, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """`searchsorted` in one row of boundaries."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@public
def isin(
    elements: TensorLike, test_elements: TensorLike, *, assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:  # fmt: skip
    """Whether each element is among `test_elements`; bool."""
    given: Any = elements if is_tensor(elements) else test_elements
    x, among = (_tensor(v, given) for v in (elements, test_elements))
    found = (x.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return ~found if invert else found
