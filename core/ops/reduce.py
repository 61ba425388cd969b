"""Reductions over dims, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from rushlight.core.dtype import DType, as_dtype, bool_, float32, int64
from rushlight.core.layout import Shape, normalize_dim, normalize_dims
from rushlight.core.op import Context, Meta, Op, rule
from rushlight.core.ops import unary as u
from rushlight.core.ops.common import floating
from rushlight.core.ops.join import CAT

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

Dims = int | Sequence[int] | None


class ValuesIndices(NamedTuple):
    """The values that were picked along a dim, and where in it they stood (int64)."""

    values: Tensor
    indices: Tensor


def _kept(x: Meta, dims: tuple[int, ...], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return tuple(n for d, n in enumerate(x.shape) if d not in dims)


def _infer(x: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
    return x.fresh(_kept(x, dim, keepdim))


def _infer_bool(x: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
    return x.fresh(_kept(x, dim, keepdim), bool_)


def _infer_index(x: Meta, *, dim: int, keepdim: bool) -> Meta:
    return x.fresh(_kept(x, (dim,), keepdim), int64)


def _spread(c: Context, g: Tensor) -> Tensor:
    """A reduced tensor seen with the shape of the input again."""
    x = c.inputs[0]
    assert x is not None
    return g.reshape(*_kept(x, c.attrs["dim"], True)).expand(*x.shape)


def _extreme_grad(c: Context, g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    # Equal extremes share the gradient evenly, as torch's amax does.
    hit = (x == _spread(c, out)).to(g.dtype)
    return hit * (_spread(c, g) / _spread(c, hit.sum(c.attrs["dim"])))


SUM = Op("sum", infer=_infer, grads=(rule(_spread),))
AMAX = Op("amax", infer=_infer, grads=(rule(_extreme_grad, 0, "out"),))
AMIN = Op("amin", infer=_infer, grads=(rule(_extreme_grad, 0, "out"),))
ANY = Op("any", infer=_infer_bool, differentiable=False)
ALL = Op("all", infer=_infer_bool, differentiable=False)
ARGMAX = Op("argmax", infer=_infer_index, differentiable=False)
ARGMIN = Op("argmin", infer=_infer_index, differentiable=False)


def _dims(name: str, dim: Dims, x: Tensor) -> tuple[int, ...]:
    # No dims at all means every dim, as in torch (which excepts any and all).
    return normalize_dims(name, None if dim == () or dim == [] else dim, x.shape)


def _wide(x: Tensor) -> Tensor:
    """Narrow floats as float32, so that a result of several steps is rounded only once."""
    return x.to(float32) if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x


def sum(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """Sum over `dim` (an int, several, or all); integers and booleans give int64."""
    if dtype is not None:
        x = x.to(as_dtype(dtype))
    elif not x.dtype.is_floating_point:
        x = x.to(int64)
    return SUM(x, dim=_dims("sum", dim, x), keepdim=keepdim)


def _count(x: Tensor, dims: tuple[int, ...]) -> int:
    count = 1
    for d in dims:
        count *= x.shape[d]
    return count


def _mean_input(name: str, x: Tensor) -> Tensor:
    if not x.dtype.is_floating_point:
        raise TypeError(f"{name}: {x.dtype.name} is not a floating dtype; use x.float().{name}()")
    return x


def mean(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Mean over `dim`; nan over no elements. TypeError for integers."""
    dims = _dims("mean", dim, _mean_input("mean", x))
    return (SUM(_wide(x), dim=dims, keepdim=keepdim) / _count(x, dims)).to(x.dtype)


def var(x: Tensor, dim: Dims = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """Variance over `dim`, the squared deviations divided by count - correction."""
    return _var(_mean_input("var", x), dim, correction, keepdim).to(x.dtype)


def _var(x: Tensor, dim: Dims, correction: int, keepdim: bool) -> Tensor:
    dims = _dims("var", dim, x)
    count = _count(x, dims) - correction
    count = count if count > 0 else 0
    wide = _wide(x)
    total = SUM(u.square(wide - mean(wide, dims, True)), dim=dims, keepdim=keepdim)
    return total / count


def std(x: Tensor, dim: Dims = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """Standard deviation over `dim`: the square root of `var`."""
    return _root(_var(_mean_input("std", x), dim, correction, keepdim), 2).to(x.dtype)


def _root(x: Tensor, p: float) -> Tensor:
    """x ** (1 / p) for x >= 0, with gradient zero at zero, as torch has it for norms."""
    zero = x == 0
    if x.requires_grad:
        x = x.masked_fill(zero, 1)
    out: Tensor = u.sqrt(x) if p == 2 else x ** (1 / p)
    return out.masked_fill(zero, 0) if out.requires_grad else out


def _extreme(op: Op, name: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    dims = _dims(name, dim, x)
    if _count(x, dims) == 0:
        raise ValueError(f"{name}: shape {x.shape} has no elements along dims {dims}")
    return op(x, dim=dims, keepdim=keepdim)


def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Largest element over `dim`; nan if any is. Equal ones share the gradient."""
    return _extreme(AMAX, "amax", x, dim, keepdim)


def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Smallest element over `dim`; nan if any is. Equal ones share the gradient."""
    return _extreme(AMIN, "amin", x, dim, keepdim)


def any(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any element over `dim` is non-zero (nan counts as non-zero)."""
    return ANY(x, dim=normalize_dims("any", dim, x.shape), keepdim=keepdim)


def all(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over `dim` are non-zero (nan counts as non-zero)."""
    return ALL(x, dim=normalize_dims("all", dim, x.shape), keepdim=keepdim)


def _arg(op: Op, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        flat = _arg(op, x.reshape(-1), 0, False)
        return flat.reshape(*[1] * x.ndim) if keepdim else flat
    if x.ndim == 0:
        x = x.reshape(1)
        keepdim = False
    d = normalize_dim(op.name, dim, x.shape)
    if x.shape[d] == 0:
        raise ValueError(f"{op.name}: shape {x.shape} has no elements along dim {dim}")
    return op(x, dim=d, keepdim=keepdim)


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the first largest element along `dim`, or in the flattened tensor."""
    return _arg(ARGMAX, x, dim, keepdim)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the first smallest element along `dim`, or in the flattened tensor."""
    return _arg(ARGMIN, x, dim, keepdim)


def _picked(arg: Callable[..., Tensor], x: Tensor, dim: int, keepdim: bool) -> ValuesIndices:
    if x.ndim == 0:
        return ValuesIndices(x.clone(), arg(x, dim))
    index = arg(x, dim, True)
    values = x.gather(dim, index)
    if keepdim:
        return ValuesIndices(values, index)
    return ValuesIndices(values.squeeze(dim), index.squeeze(dim))


@overload
def max(x: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def max(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
def max(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The largest element; with `dim`, (values, indices) along it, the first where several are."""
    return amax(x) if dim is None else _picked(argmax, x, dim, keepdim)


@overload
def min(x: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def min(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
def min(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The smallest element; with `dim`, (values, indices) along it, the first where several are."""
    return amin(x) if dim is None else _picked(argmin, x, dim, keepdim)


def prod(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Product along `dim`, or of all elements; integers and booleans give int64."""
    if not x.dtype.is_floating_point:
        x = x.to(int64)
    if dim is None:
        flat = prod(x.reshape(-1), 0)
        return flat.reshape(*[1] * x.ndim) if keepdim else flat
    d = normalize_dim("prod", dim, x.shape)
    if x.ndim == 0:
        return x.clone()
    if x.dtype.is_floating_point and x.dtype.itemsize < 4:
        return prod(_wide(x), d, keepdim).to(x.dtype)
    if x.shape[d] < 2:
        return SUM(x, dim=(d,), keepdim=keepdim) + (1 - x.shape[d])
    shape = _kept(x, (d,), keepdim)
    # Pairwise halving: exact gradients of every order, also where elements are zero.
    while x.shape[d] > 1:
        half = x.shape[d] // 2
        pair = x.narrow(d, 0, half) * x.narrow(d, half, half)
        rest = x.narrow(d, 2 * half, x.shape[d] - 2 * half)
        x = pair if rest.shape[d] == 0 else CAT(pair, rest, dim=d)
    return x.reshape(*shape)


def logsumexp(x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim` without overflow."""
    x = floating("logsumexp", x)
    dims = _dims("logsumexp", dim, x)
    wide = _wide(x)
    if _count(x, dims) == 0:
        return u.log(SUM(wide, dim=dims, keepdim=keepdim)).to(x.dtype)
    top = AMAX(wide.detach(), dim=dims, keepdim=True)
    top = top.where(u.isfinite(top), 0.0)
    out = (u.log(SUM(u.exp(wide - top), dim=dims, keepdim=True)) + top).to(x.dtype)
    return out if keepdim else out.reshape(*_kept(x, dims, False))


def _power(x: Tensor, p: float) -> Tensor:
    """|x| ** p, with gradient zero at zero also where p < 1 makes it infinite, as in torch."""
    zero = x == 0
    return (u.abs(x.masked_fill(zero, 1)) ** p).masked_fill(zero, 0)


def norm(x: Tensor, p: float = 2, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The p-norm of the elements over `dim`: (sum |x|^p)^(1/p).

    p may be infinite (the largest or the smallest |x|), and 0 counts what is not zero.
    """
    x = floating("norm", x)
    if math.isinf(p):
        return (amax if p > 0 else amin)(u.abs(x), dim, keepdim)
    dims, wide = _dims("norm", dim, x), _wide(x)
    if p == 0:
        return SUM((wide != 0).to(wide.dtype), dim=dims, keepdim=keepdim).to(x.dtype)
    if p == 1:
        return SUM(u.abs(wide), dim=dims, keepdim=keepdim).to(x.dtype)
    parts = u.square(wide) if p == 2 else _power(wide, p)
    return _root(SUM(parts, dim=dims, keepdim=keepdim), p).to(x.dtype)


def _infer_cumsum(x: Meta, *, dim: int) -> Meta:
    return x.fresh()


def _cumsum_grad(c: Context, g: Tensor) -> Tensor:
    d = c.attrs["dim"]
    return g.flip(d).cumsum(d).flip(d)


CUMSUM = Op("cumsum", infer=_infer_cumsum, grads=(rule(_cumsum_grad),))


def cumsum(x: Tensor, dim: int) -> Tensor:
    """Running sums along `dim`; same shape; integers and booleans give int64."""
    if not x.dtype.is_floating_point:
        x = x.to(int64)
    d = normalize_dim("cumsum", dim, x.shape)
    return x.clone() if x.ndim == 0 else CUMSUM(x, dim=d)
