"""Covariances, counts of values, histograms, and places in sorted rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.dtype import float64, int32, int64
from rushlight.core.basis.errors import ArgumentError, RangeError, ShapeError, TypeMismatch
from rushlight.core.functional.calculus import shape_along
from rushlight.core.functional.comparison import tensor_beside
from rushlight.core.functional.complex import complex
from rushlight.core.functional.creation import linspace
from rushlight.core.jit import capture
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import TensorLike, floating, is_tensor
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.unary import isnan

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Covariances of the rows of x (variables, observations).

    `correction` is taken off the count; `fweights` (int) repeat observations, `aweights` (floating)
    weigh them. Raises ShapeError or TypeError for others.
    """
    if x.ndim > 2:
        raise ShapeError(f"cov: x is {x.shape}; it must have at most 2 dims")
    x = floating("cov", x)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    for name, counts in (("fweights", fweights), ("aweights", aweights)):
        if counts is not None and counts.shape != rows.shape[1:]:
            raise ShapeError(f"cov: {name} is {counts.shape}; it must be {rows.shape[1:]}")
        if counts is not None and (name == "fweights") is counts.dtype.is_floating_point:
            raise TypeMismatch(
                f"cov: {name} is {counts.dtype.name}; fweights are integers, aweights floating"
            )
    weights = None
    for counts in (fweights, aweights):
        if counts is not None:
            weights = counts if weights is None else weights * counts
    if weights is None:
        count: Any = rows.shape[1] - correction
        centred = rows - rows.mean(1, True)
        matrix = centred @ centred.mH / max(count, 0)
    else:
        if not capture.active:  # reading a flag would end the capture
            for name, counts in (("fweights", fweights), ("aweights", aweights)):
                if counts is not None and (counts < 0).any().item():
                    raise ValueError(f"cov: {name} has negative numbers")
        total = weights.sum()  # in the dtype of the weights, as in torch
        centred = rows - (rows * weights).sum(1, True) / total
        used = total if aweights is None else (weights * aweights).sum() / total
        count = total - correction * (1.0 if aweights is None else used)
        matrix = (centred * weights) @ centred.mH / count.clamp(min=0)
    result: Tensor = matrix.reshape() if rows.shape[0] == 1 else matrix
    return result


@public
@method()
def corrcoef(x: Tensor) -> Tensor:
    """Correlations of the rows of x (variables, observations), within [-1, 1]."""
    result = cov(x)
    if result.ndim == 0:
        return result / result
    scale = result.diagonal().sqrt()
    result = result / scale.unsqueeze(1) / scale
    if result.dtype.is_complex:
        return complex(result.real.clamp(-1, 1), result.imag.clamp(-1, 1))
    return result.clamp(-1, 1)


@public
@method()
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs in 1-d x, or the sums of its weights; reads the largest.

    At least `minlength` counts. Raises ShapeError for other dims or dtypes, ValueError for negative
    numbers and a negative minlength.
    """
    if x.ndim != 1 or x.dtype.kind not in "ui":
        raise ShapeError(f"bincount: x is {x.dtype.name} {x.shape}; it must be 1-d integers")
    if minlength < 0:
        raise ArgumentError(f"bincount: minlength is {minlength}; it must not be negative")
    if x.numel() and int(x.amin().item()) < 0:
        raise ValueError("bincount: x has negative numbers")
    count = max(minlength, int(x.amax().item()) + 1 if x.numel() else 0)
    ones = x.ones_like(dtype=int64) if weights is None else weights
    if not ones.dtype.is_floating_point and weights is not None:
        ones = ones.to(float64)
    return zeros(count, dtype=ones.dtype, device=x.device).index_add(0, x.to(int64), ones)


def _check_bins(name: str, bins: int) -> None:
    if bins < 1:
        raise RangeError(f"{name}: bins is {bins}; it must be at least 1")


def _check_range(name: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise RangeError(f"{name}: the range is {low} to {high}; it must rise, and be finite")


@public
@method()
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in `bins` equal parts of [min, max], of the range of x where both are 0.

    `bins` counts in the dtype of x. Raises ValueError for no bins, and for a range that is not
    finite or ends before it begins.
    """
    _check_bins("histc", bins)
    if min == max == 0 and x.numel():
        min, max = float(x.amin().item()), float(x.amax().item())
    _check_range("histc", min, max)
    if min == max:
        min, max = min - 1, max + 1
    flat = x.reshape(-1)
    place = ((flat - min) * bins / (max - min)).floor().clamp(0, bins - 1)
    inside = (flat >= min) & (flat <= max)
    place = where(inside, place, 0.0).to(int64)
    counts = zeros(bins, dtype=x.dtype, device=x.device)
    return counts.index_add(0, place, inside.to(x.dtype))


_COUNTED = 1 << 12  # the most comparisons that are cheaper than the steps of halving


def _smaller(rows: Tensor, x: Tensor, after: bool) -> Tensor:
    """How many elements of its row are smaller than each of x, or equal to it if `after`."""
    each = rows if rows.ndim == 1 else rows.unsqueeze(-2)
    values = x.unsqueeze(-1)
    less = (each <= values) if after else (each < values)
    if rows.dtype.is_floating_point:  # nan is behind all numbers
        last = isnan(values) if after else isnan(values) & ~isnan(each)
        less = less | last
    return less.sum(-1)


@public
def searchsorted(
    sorted_sequence: Tensor,
    input: TensorLike,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each of `input` would stand in sorted rows: before equal ones, after if `right`.

    `sorted_sequence` rises along its last dim, or does by `sorter`, its argsort. `side`: "left" or
    "right" says the latter. `out_int32`: int32 for int64. Raises ShapeError for rows that do not
    fit.
    """
    after = right if side is None else side == "right"
    rows = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    x = tensor_beside(input, rows)
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
        place = middle.clamp(max=max(n - 1, 0))
        element = rows[place] if rows.ndim == 1 else rows.gather(-1, place)
        less = (element <= x) if after else (element < x)
        if rows.dtype.is_floating_point:
            less = less | (~isnan(element) & isnan(x)) | (isnan(element) & isnan(x) & after)
        moves = less & (low < high)
        stays = ~less & (low < high)
        low, high = where(moves, middle + 1, low), where(stays, middle, high)
    return low.to(int32) if out_int32 else low


@public
def bucketize(
    input: TensorLike, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """`searchsorted` in one row of boundaries.

    `input`, `out_int32` and `right` as there; it raises ShapeError for boundaries that are no row.
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


class Histogram(NamedTuple):
    """Counts or densities, and the edges of the bins."""

    hist: Tensor
    bin_edges: Any


def _edges(name: str, x: Tensor, bins: Any, low: float, high: float) -> Tensor:
    if is_tensor(bins):
        if bins.ndim != 1 or not bins.numel():
            raise ShapeError(f"{name}: bins is {bins.shape}; it must be 1-d edges, one at least")
        return bins  # type: ignore[no-any-return]
    _check_bins(name, bins)
    _check_range(name, low, high)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


@public
def histogramdd(
    x: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Counts of points (..., dims) in a grid: (hist, edges of each dim).

    bins: a number, numbers, or edges of each dim. range: (low, high) of each dim one after another,
    by default that of x, which is read. density: scaled so that the integral is 1.

    `weight` (...) counts in place of ones. Raises ShapeError for bins or weights of another count,
    ValueError for no bins and a range that does not rise.
    """
    return _histogram("histogramdd", x, bins, range, weight, density)


def _histogram(
    name: str, x: Tensor, bins: Any, range: Any, weight: Any, density: bool
) -> Histogram:
    points = x.reshape(-1, x.shape[-1])
    dims = points.shape[1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * dims
    if len(each) != dims:
        raise ShapeError(f"{name}: bins has {len(each)} parts; x {x.shape} has {dims} dims")
    if weight is not None and weight.numel() != len(points):
        raise ShapeError(f"{name}: weight is {weight.shape}; x has {len(points)} points")
    edges, place, inside, shape = [], None, None, []
    for d, row in enumerate(each):
        column = points[:, d].contiguous()
        if range is not None:
            low, high = range[2 * d], range[2 * d + 1]
        elif is_tensor(row) or not len(column):
            low, high = 0.0, 1.0
        else:
            low, high = column.amin().item(), column.amax().item()
        edge = _edges(name, x, row, low, high)
        count = edge.numel() - 1
        # The last bin holds its upper edge too.
        bin_number = searchsorted(edge, column, right=True) - 1
        bin_number = where(column == edge[-1], count - 1, bin_number)
        good = (bin_number >= 0) & (bin_number < count) & (column <= edge[-1])
        bin_number = where(good, bin_number, 0)
        place = bin_number if place is None else place * count + bin_number
        inside = good if inside is None else inside & good
        edges.append(edge)
        shape.append(count)
    assert place is not None and inside is not None
    amount = inside.to(x.dtype) if weight is None else where(inside, weight.reshape(-1), 0)
    total = 1
    for n in shape:
        total *= n
    hist = zeros(total, dtype=x.dtype, device=x.device).index_add(0, place, amount.to(x.dtype))
    hist = hist.reshape(*shape)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            hist = hist / (edge[1:] - edge[:-1]).reshape(*shape_along(d, dims))
    return Histogram(hist, tuple(edges))


@public
@method()
def histogram(
    x: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Counts of the elements of x in bins: (hist, bin_edges); see `histogramdd`.

    `range`, `weight` and `density` as there. Raises ShapeError for shapes that do not fit,
    ValueError for no bins and a range that does not rise.
    """
    counts = _histogram("histogram", x.reshape(-1, 1), [bins], range, weight, density)
    return Histogram(counts.hist, counts.bin_edges[0])
