"""Reductions and scans made of others: medians, quantiles, running products and extremes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.pieces import stack
from rushlight.core.functional.rearranging import atleast_1d
from rushlight.core.functional.reductions import mean, std, var
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.reduce import Dims, ValuesIndices

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def nansum(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The sum without the elements that are nan."""
    return x.masked_fill(x.isnan(), 0).sum(dim, keepdim)


@public
@method()
def nanmean(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The mean of the elements that are not nan."""
    count = x.isnan().logical_not().to(x.dtype).sum(dim, keepdim)
    return nansum(x, dim, keepdim) / count


@public
@method()
def count_nonzero(x: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are not zero, over `dim` or all of x (int64)."""
    return (x != 0).to(int64).sum(dim)


@public
@method()
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element along `dim`, or of all."""
    return x.amin(dim, keepdim), x.amax(dim, keepdim)


@public
def var_mean(
    x: Tensor, dim: Dims = None, *, correction: int = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """`var` and `mean`."""
    return var(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)


@public
def std_mean(
    x: Tensor, dim: Dims = None, *, correction: int = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """`std` and `mean`."""
    return std(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)


@public
@method()
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along `dim`, counted from one, and its index."""
    wide = atleast_1d(x)
    d = normalize_dim("kthvalue", dim, wide.shape)
    if not 1 <= k <= wide.shape[d]:
        raise IndexError(f"kthvalue: k is {k}; dim {dim} has {wide.shape[d]} elements")
    values, indices = (t.narrow(d, k - 1, 1) for t in wide.sort(d))
    if x.ndim and keepdim:
        return ValuesIndices(values, indices)
    return ValuesIndices(values.squeeze(d), indices.squeeze(d))


@public
@method()
def msort(x: Tensor) -> Tensor:
    """The values sorted along dim 0."""
    return atleast_1d(x).sort(0)[0].reshape(*x.shape)


@public
@method()
def cumprod(x: Tensor, dim: int) -> Tensor:
    """The product of each element and those before it along `dim`; integers give int64."""
    x = x if x.dtype.is_floating_point else x.to(int64)
    if not x.ndim:
        return x.clone()
    d = normalize_dim("cumprod", dim, x.shape)
    # Doubling: after the step of width w each element is the product of the last 2 w up to it.
    width = 1
    while width < x.shape[d]:
        rest = x.shape[d] - width
        moved = x.narrow(d, width, rest) * x.narrow(d, 0, rest)
        x = cat([x.narrow(d, 0, width), moved], d)
        width *= 2
    return x


@public
@method()
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(x))) along `dim`, each dim's largest element taken out first."""
    if not x.ndim:
        return x.clone()
    top = x.detach().amax(dim, True)
    top = top.where(top.isfinite(), 0.0)
    return (x - top).exp().cumsum(dim).log() + top


@public
@method()
def quantile(
    x: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The value below which a share `q` of the elements lies, along `dim` or of all.

    Several q give a dim in front. Between two elements `interpolation` is "linear", "lower",
    "higher", "midpoint" or "nearest". nan where an element is nan.
    """
    kinds = ("linear", "lower", "higher", "midpoint", "nearest")
    if interpolation not in kinds:
        raise ValueError(f"quantile: interpolation is {interpolation!r}; supported: "
                         f"{', '.join(kinds)}")  # fmt: skip
    shares = [float(q)] if isinstance(q, int | float) else [float(v) for v in _listed(q)]
    if not all(0 <= v <= 1 for v in shares):
        raise ValueError(f"quantile: q is {shares}; it must be from 0 to 1")
    wide = x.reshape(-1) if dim is None else atleast_1d(x)
    d = 0 if dim is None else normalize_dim("quantile", dim, wide.shape)
    if not wide.shape[d]:
        raise ValueError(f"quantile: no elements in dim {d} of {x.shape}")
    ordered, bad = wide.sort(d)[0], wide.isnan().any(d, True)
    rows = []
    for share in shares:
        place = share * (wide.shape[d] - 1)
        low, high = math.floor(place), math.ceil(place)
        part = {"linear": place - low, "lower": 0.0, "higher": 1.0, "midpoint": 0.5,
                "nearest": float(round(place) - low)}[interpolation]  # fmt: skip
        below, above = (ordered.narrow(d, i, 1) for i in (low, high))
        value = below if low == high else below + (above - below) * part
        rows.append(value.masked_fill(bad, math.nan))
    several = not isinstance(q, int | float) and q.ndim == 1
    shape = [1] * x.ndim if dim is None else list(wide.shape)
    shape[d : d + 1] = [1] if keepdim and x.ndim else []
    shape = shape if keepdim or dim is not None else []
    parts = [row.reshape(*shape) for row in rows]
    return stack(parts) if several else parts[0]


def _listed(q: Tensor) -> list[float]:
    values = q.tolist()
    return values if isinstance(values, list) else [values]


@public
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The area below points y at places x, or `dx` apart, by the rule of trapezoids."""
    n = y.shape[dim]
    pair = y.narrow(dim, 0, n - 1) + y.narrow(dim, 1, n - 1)
    if x is None:
        return pair.sum(dim) * (dx / 2)
    if x.ndim == 1:
        gap = x[1:] - x[:-1]
        gap = gap.reshape(-1, *[1] * (y.ndim - 1 - dim % y.ndim))
    else:
        gap = x.narrow(dim, 1, n - 1) - x.narrow(dim, 0, n - 1)
    return (pair * gap).sum(dim) * 0.5


@public
@method()
def argwhere(x: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row each; reads their number back."""
    return x.nonzero()


@public
def searchsorted(sorted_sequence: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """How many elements of the sorted last dim are below each value; `right`: not above.

    Counted by comparing all pairs, so memory grows with their number.
    """
    one, each = sorted_sequence.unsqueeze(-2), values.unsqueeze(-1)
    return (one <= each if right else one < each).to(int64).sum(-1)


@public
def bucketize(x: Tensor, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """The number of boundaries (sorted, one dim) below each element; `right`: not above."""
    return searchsorted(boundaries, x.reshape(-1), right=right).reshape(*x.shape)


@public
@method()
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from zero occurs in a vector, or the sum of its weights.

    Reads the largest number back. ValueError for negative numbers.
    """
    if x.ndim != 1:
        raise ValueError(f"bincount: shape {x.shape}; it takes a vector")
    if x.numel() and int(x.min().item()) < 0:
        raise ValueError("bincount: a number is negative")
    size = max(int(x.max().item()) + 1 if x.numel() else 0, minlength)
    given = x.ones_like(dtype=int64) if weights is None else weights
    zero = given.new_zeros(size)
    return zero.scatter_add(0, x.to(int64), given)
