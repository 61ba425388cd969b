"""Reductions that are composites: mean and variance, norms, products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import PARTS, DType, as_dtype, int64
from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import floating
from rushlight.core.ops.declare import method, network, public
from rushlight.core.ops.join import CAT
from rushlight.core.ops.reduce import (
    AMAX,
    SUM,
    Dims,
    amax,
    amin,
    count_of,
    dims_of,
    kept_shape,
    widened,
)
from rushlight.core.ops.unary import abs, exp, isfinite, log, sqrt, square, turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


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
    """Mean over `dim`; nan over no elements. TypeError for integers without a `dtype`."""
    x = x if dtype is None else x.to(as_dtype(dtype))
    dims = dims_of("mean", dim, _mean_input("mean", x))
    return (SUM(widened(x), dim=dims, keepdim=keepdim) / count_of(x, dims)).to(x.dtype)


@public
@method()
def var(
    x: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """Variance over `dim`, the squared deviations divided by count - correction.

    correction: 1 by default, 0 for `unbiased=False`, which may also stand in the place of `dim`.
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
    count = max(count_of(x, dims) - less, 0)
    wide = widened(x)
    total = SUM(_square(wide - mean(wide, dims, True)), dim=dims, keepdim=keepdim)
    return total / count


@public
@method()
def std(
    x: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """Standard deviation over `dim`: the square root of `var`."""
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
def norm(
    x: Tensor, p: float | str | None = 2, dim: Dims = None, keepdim: bool = False, *,
    dtype: DType | str | None = None,
) -> Tensor:  # fmt: skip
    """The p-norm of the elements over `dim`: (sum |x|^p)^(1/p).

    p may be infinite (the largest or the smallest |x|); p = 0 counts non-zero elements; "fro" is 2;
    "nuc" is the sum of the singular values of matrices.
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
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """`input` divided by its p-norm along `dim`, or by `eps` where that is larger; same shape."""
    return input / input.norm(p, dim, True).clamp(min=eps)


@public
@method()
def prod(
    x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """Product along `dim`, or of all elements; integers and booleans give int64."""
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
@method()
def logsumexp(x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim` without overflow."""
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
