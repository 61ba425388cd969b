"""Histograms with edges, and gradients of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dims
from rushlight.core.functional.creation import linspace
from rushlight.core.functional.math.statistics import searchsorted
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.join import cat

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class Histogram(NamedTuple):
    """Counts or densities, and the edges of the bins."""

    hist: Tensor
    bin_edges: Any


def _edges(x: Tensor, bins: Any, low: float, high: float) -> Tensor:
    if is_tensor(bins):
        return bins  # type: ignore[no-any-return]
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


@public
def histogramdd(
    x: Tensor, bins: Any, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:  # fmt: skip
    """Counts of points (..., dims) in a grid: (hist, edges of each dim).

    bins: a number, numbers, or edges of each dim. range: (low, high) of each dim one after another,
    by default that of x, which is read. density: scaled so that the integral is 1.
    """
    points = x.reshape(-1, x.shape[-1])
    dims = points.shape[1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * dims
    if len(each) != dims:
        raise ShapeError(f"histogramdd: bins has {len(each)} parts; x {x.shape} has {dims} dims")
    edges, place, inside, shape = [], None, None, []
    for d, one in enumerate(each):
        column = points[:, d].contiguous()
        if range is not None:
            low, high = range[2 * d], range[2 * d + 1]
        elif is_tensor(one) or not len(column):
            low, high = 0.0, 1.0
        else:
            low, high = column.amin().item(), column.amax().item()
        edge = _edges(x, one, low, high)
        count = edge.numel() - 1
        # The last bin holds its upper edge too.
        at = searchsorted(edge, column, right=True) - 1
        at = where(column == edge[-1], count - 1, at)
        good = (at >= 0) & (at < count) & (column <= edge[-1])
        at = where(good, at, 0)
        place = at if place is None else place * count + at
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
            hist = hist / (edge[1:] - edge[:-1]).reshape(*_along(d, dims))
    return Histogram(hist, tuple(edges))


def _along(d: int, rank: int) -> list[int]:
    """The shape of a vector along dim d of so many."""
    return [1] * d + [-1] + [1] * (rank - 1 - d)


@public
@method()
def histogram(
    x: Tensor, bins: Any, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:  # fmt: skip
    """Counts of the elements of x in bins: (hist, bin_edges); see `histogramdd`."""
    found = histogramdd(x.reshape(-1, 1), [bins], range, weight, density)
    return Histogram(found.hist, found.bin_edges[0])


@public
def gradient(
    x: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Derivatives of a sampled function along each of `dim` by differences of second order.

    spacing: a step, a step for each dim, or coordinates of each dim. edge_order: 1 or 2, the order
    at the ends.
    """
    dims = normalize_dims("gradient", dim, x.shape)
    spacing = 1 if spacing is None else spacing
    given = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(given) != len(dims) or edge_order not in (1, 2):
        raise ValueError(f"gradient: spacing {spacing!r}, dim {dim!r}, edge_order {edge_order}; "
                         "a spacing for each dim, and edge_order 1 or 2")  # fmt: skip
    return tuple(_gradient(x, step, d, edge_order) for d, step in zip(dims, given, strict=True))


def _gradient(x: Tensor, step: Any, d: int, order: int) -> Tensor:
    n = x.shape[d]
    if n < order + 1:
        raise ShapeError(f"gradient: dim {d} of {x.shape} must have {order + 1} elements")
    h = zeros(n - 1, dtype=x.dtype, device=x.device) + step if not is_tensor(step) else (
        step[1:] - step[:-1])  # fmt: skip
    h = h.reshape(*_along(d, x.ndim))
    slope = (x.narrow(d, 1, n - 1) - x.narrow(d, 0, n - 1)) / h
    if n == 2:
        return cat([slope, slope], d)
    a, b = h.narrow(d, 0, n - 2), h.narrow(d, 1, n - 2)
    left, right = slope.narrow(d, 0, n - 2), slope.narrow(d, 1, n - 2)
    inner = (left * b + right * a) / (a + b)
    first, last = slope.narrow(d, 0, 1), slope.narrow(d, n - 2, 1)
    if order == 2:  # of the parabola through three points
        first = first - (right - left).narrow(d, 0, 1) * (a / (a + b)).narrow(d, 0, 1)
        last = last + (right - left).narrow(d, n - 3, 1) * (b / (a + b)).narrow(d, n - 3, 1)
    return cat([first, inner, last], d)
