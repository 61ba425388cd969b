"""Reductions over dims, indices of extremes, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rushlight.core.basis.dtype import DType, as_dtype, bool_, float32, int64, uint8
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import Shape, normalize_dim, normalize_dims
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.complex import view_as_complex, view_as_real
from rushlight.core.ops.declare import method, public
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Dims = int | Sequence[int] | None


class ValuesIndices(NamedTuple):
    """The selected values along a dim, and their indices in it (int64)."""

    values: Tensor
    indices: Tensor


def kept_shape(x: Meta, dims: tuple[int, ...], keepdim: bool) -> Shape:
    """The shape of `x` without `dims`, or with size one there."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return tuple(n for d, n in enumerate(x.shape) if d not in dims)


def _infer(x: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
    return x.fresh(kept_shape(x, dim, keepdim))


def _infer_bool(x: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
    return x.fresh(kept_shape(x, dim, keepdim), bool_)


def _infer_index(x: Meta, *, dim: int, keepdim: bool) -> Meta:
    return x.fresh(kept_shape(x, (dim,), keepdim), int64)


def _spread(c: Context, g: Tensor) -> Tensor:
    """A reduced tensor expanded to the shape of the input."""
    x = c.inputs[0]
    assert x is not None
    return g.reshape(*kept_shape(x, c.attrs["dim"], True)).expand(*x.shape)


def _extreme_grad(c: Context, g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    # Equal extremes share the gradient evenly, as torch's amax does.
    hit = (x == _spread(c, out)).to(g.dtype)
    return hit * (_spread(c, g) / _spread(c, hit.sum(c.attrs["dim"])))


SUM = Op("sum", infer=_infer, grads=(rule(_spread),), complex=True, batch="dim")
AMAX = Op("amax", infer=_infer, grads=(rule(_extreme_grad, 0, "out"),), batch="dim")
AMIN = Op("amin", infer=_infer, grads=(rule(_extreme_grad, 0, "out"),), batch="dim")
ANY = Op("any", infer=_infer_bool, differentiable=False, batch="dim")
ALL = Op("all", infer=_infer_bool, differentiable=False, batch="dim")
ARGMAX = Op("argmax", infer=_infer_index, differentiable=False, batch="dim")
ARGMIN = Op("argmin", infer=_infer_index, differentiable=False, batch="dim")


def dims_of(name: str, dim: Dims, x: Tensor) -> tuple[int, ...]:
    """`dim` as dims of `x`, counted from the front; all dims if it is None or empty."""
    # An empty tuple means every dim, as in torch (except for torch's any and all).
    if isinstance(dim, (tuple, list)) and not dim:
        dim = None
    return normalize_dims(name, dim, x.layout.shape)


def widened(x: Tensor) -> Tensor:
    """Narrow floats as float32, so that a result of several steps is rounded once."""
    return x.to(float32) if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x


@public
@method()
@casts(accelerator="float32")
def sum(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | str | None = None
) -> Tensor:
    """Sum over `dim` (an int, several, or all); integers and booleans give int64.

    `x` is converted to `dtype` first; `keepdim` leaves the dims with size 1. Raises IndexError for
    a dim that there is not.
    """
    if dtype is not None:
        x = x.to(as_dtype(dtype))
    elif x.dtype.kind not in "fc":
        x = x.to(int64)
    return SUM(x, dim=dims_of("sum", dim, x), keepdim=keepdim)


def count_of(x: Tensor, dims: tuple[int, ...]) -> int:
    """The product of the sizes of `dims`."""
    shape = x.layout.shape
    return math.prod([shape[d] for d in dims])


def _extreme(op: Op, name: str, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    dims = dims_of(name, dim, x)
    if count_of(x, dims) == 0:
        kind = ShapeError if dim is None else IndexError  # as in torch
        raise kind(f"{name}: shape {x.shape} has no elements along dims {dims}")
    return op(x, dim=dims, keepdim=keepdim)


@public
@method()
def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Largest element over `dim`; nan if any is nan. Equal ones share the gradient.

    `x` may not be complex; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    return _extreme(AMAX, "amax", x, dim, keepdim)


@public
@method()
def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Smallest element over `dim`; nan if any is nan. Equal ones share the gradient.

    `x` may not be complex; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    return _extreme(AMIN, "amin", x, dim, keepdim)


def _truth(op: Op, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    result = op(
        x != 0 if x.dtype.kind == "c" else x,
        dim=normalize_dims(op.name, dim, x.shape),
        keepdim=keepdim,
    )
    return result.to(x.dtype) if x.dtype is uint8 else result


@public
@method()
def any(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether any element over `dim` is non-zero (nan is); bool, of uint8 uint8.

    `x` may have any dtype; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not.
    """
    return _truth(ANY, x, dim, keepdim)


@public
@method()
def all(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over `dim` are non-zero (nan is); bool, of uint8 uint8.

    `x` may have any dtype; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not.
    """
    return _truth(ALL, x, dim, keepdim)


def _arg(op: Op, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        flat = _arg(op, x.reshape(-1), 0, False)
        return flat.reshape(*[1] * x.ndim) if keepdim else flat
    if x.ndim == 0:
        x = x.reshape(1)
        keepdim = False
    d = normalize_dim(op.name, dim, x.shape)
    if x.shape[d] == 0:
        raise IndexError(f"{op.name}: shape {x.shape} has no elements along dim {dim}")
    return op(x, dim=d, keepdim=keepdim)


@public
@method()
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the first largest element along `dim`, or in the flattened tensor.

    `x` may not be complex; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    return _arg(ARGMAX, x, dim, keepdim)


@public
@method()
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the first smallest element along `dim`, or in the flattened tensor.

    `x` may not be complex; `keepdim` leaves the dims with size 1. Raises IndexError for a dim that
    there is not, or one without elements.
    """
    return _arg(ARGMIN, x, dim, keepdim)


def _infer_cumsum(x: Meta, *, dim: int) -> Meta:
    return x.fresh()


def _cumsum_grad(c: Context, g: Tensor) -> Tensor:
    d = c.attrs["dim"]
    return g.flip(d).cumsum(d).flip(d)


CUMSUM = Op("cumsum", infer=_infer_cumsum, grads=(rule(_cumsum_grad),), batch="dim")


@public
@method()
@casts(accelerator="float32")
def cumsum(x: Tensor, dim: int, *, dtype: DType | str | None = None) -> Tensor:
    """Running sums along `dim`; same shape; integers and booleans give int64.

    `x` is converted to `dtype` first. Raises IndexError for a dim that there is not.
    """
    if dtype is not None:
        x = x.to(as_dtype(dtype))
    elif x.dtype.kind in "bui":
        x = x.to(int64)
    d = normalize_dim("cumsum", dim, x.shape)
    if x.dtype.kind == "c":
        return view_as_complex(cumsum(view_as_real(x), d)) if x.ndim else x.clone()
    return x.clone() if x.ndim == 0 else CUMSUM(x, dim=d)
