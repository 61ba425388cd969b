"""Differences, gradients of sampled functions, and integrals by the trapezoidal rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import PlaceError, RangeError, ShapeError
from rushlight.core.basis.layout import normalize_dim, normalize_dims
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import also, method, public
from rushlight.core.ops.join import cat

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def diff(
    x: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along `dim`, n times; `prepend` and `append` are joined first.

    `x` is any tensor with dims. Raises ValueError for a negative n and for 0-d, IndexError for a
    dim that there is not.
    """
    d = normalize_dim("diff", dim, x.shape)
    if x.ndim == 0:
        raise ValueError("diff: x is 0-d and has no neighbours")
    if n < 0:
        raise RangeError(f"diff: n is {n}; it must not be negative")
    if n == 0:
        return x.clone()
    parts = [t for t in (prepend, x, append) if t is not None]
    x = cat([t.to(x.dtype) for t in parts], d) if len(parts) > 1 else x
    for _ in range(min(n, x.shape[d])):
        after, before = x.narrow(d, 1, x.shape[d] - 1), x.narrow(d, 0, x.shape[d] - 1)
        x = after ^ before if x.dtype.name == "bool" else after - before
    return x


def _steps(name: str, y: Tensor, x: Tensor | None, dx: float, dim: int) -> tuple[Tensor, int]:
    """The areas between neighbours."""
    d = normalize_dim(name, dim, y.shape)
    if not y.ndim:
        raise PlaceError(f"{name}: y is 0-d; it has no dim {dim}")
    n = y.shape[d]
    sums = y.narrow(d, 1, n - 1) + y.narrow(d, 0, n - 1) if n else y
    if x is None or not n:
        return sums * (dx / 2), d
    along = 0 if x.ndim == 1 else d - y.ndim
    if x.ndim < -along or x.shape[along:][:1] != (n,):
        raise ShapeError(
            f"{name}: x is {x.shape}, y {y.shape}; x must have {n} places along dim {dim}"
        )
    if x.ndim == 1:
        x = x.reshape(*[-1 if i == d else 1 for i in range(y.ndim)])
    return sums * diff(x, 1, d - y.ndim) / 2, d


@public
@also("trapz", methods=False)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoid rule, over `x` or steps of `dx`.

    `x` has the places, of y's shape or (n,). Raises IndexError for a dim that there is not,
    ShapeError for another number of places.
    """
    parts, d = _steps("trapezoid", y, x, dx, dim)
    return parts.sum(d)


@public
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1
) -> Tensor:
    """Running integrals of y along `dim` by the trapezoid rule.

    `x` has the places, or steps are `dx`. Raises IndexError for a dim that there is not, ShapeError
    for another number of places.
    """
    parts, d = _steps("cumulative_trapezoid", y, x, dx, dim)
    return parts.cumsum(d)


def shape_along(d: int, rank: int) -> list[int]:
    """The shape of a vector along dim d of so many."""
    return [1] * d + [-1] + [1] * (rank - 1 - d)


@public
def gradient(
    x: Tensor, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Derivatives of a sampled function along each of `dim` by differences of second order.

    spacing: a step, a step for each dim, or coordinates of each dim. edge_order: 1 or 2, the order
    at the ends.

    `x` is floating. Raises ValueError for spacings or an edge_order that do not fit, IndexError for
    a dim that there is not.
    """
    dims = normalize_dims("gradient", dim, x.shape)
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims) or edge_order not in (1, 2):
        raise ValueError(
            f"gradient: spacing {spacing!r}, dim {dim!r}, edge_order {edge_order}; "
            "a spacing for each dim, and edge_order 1 or 2"
        )
    return tuple(_gradient(x, step, d, edge_order) for d, step in zip(dims, spacings, strict=True))


def _gradient(x: Tensor, step: Any, d: int, order: int) -> Tensor:
    n = x.shape[d]
    if n < order + 1:
        raise ShapeError(f"gradient: dim {d} of {x.shape} must have {order + 1} elements")
    if is_tensor(step) and step.shape != (n,):
        raise ShapeError(
            f"gradient: coordinates {step.shape} of dim {d} of {x.shape}; they must be ({n},)"
        )
    h = (
        zeros(n - 1, dtype=x.dtype, device=x.device) + step
        if not is_tensor(step)
        else (step[1:] - step[:-1])
    )
    h = h.reshape(*shape_along(d, x.ndim))
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
