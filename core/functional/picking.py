"""Selecting elements: max and min with indices, sort, masked_select."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from rushlight.core.basis.dtype import bool_
from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.ops.binary import maximum, minimum
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.indexing import nonzero_async
from rushlight.core.ops.reduce import ValuesIndices, amax, amin, argmax, argmin
from rushlight.core.ops.sort import argsort
from rushlight.core.ops.subscript import getitem

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@overload
def max(x: Tensor, dim: Tensor | None = None, keepdim: bool = False) -> Tensor: ...
@overload
def max(x: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
@public
@method()
def max(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The largest element; with `dim`, (values, indices) along it; the first of equal ones.

    A tensor in the place of `dim`: `maximum` of both.
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


@public
@method()
def sort(x: Tensor, dim: int = -1, descending: bool = False, **kw: Any) -> ValuesIndices:
    """(values, indices) of `x` sorted along `dim`. Always stable; nan counts as the largest."""
    index = argsort(x, dim, descending, **kw)
    return ValuesIndices(x.gather(dim, index) if x.ndim else x.clone(), index)


@public
@method()
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of `x` where `mask` (bool, broadcast with x) holds: a 1-d tensor.

    The shape depends on the mask's values, so the mask is read; `masked_select_async` reads it
    without blocking.
    """
    return getitem(*_masked(x, mask))


@public
@method()
async def masked_select_async(x: Tensor, mask: Tensor) -> Tensor:
    """`masked_select` without blocking: it works in every browser."""
    x, mask = _masked(x, mask)
    return getitem(x, (await nonzero_async(mask)).unbind(1))


def _masked(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """`x` and `mask` in their common shape."""
    if mask.dtype is not bool_:
        raise TypeMismatch(f"masked_select: mask is {mask.dtype.name}; it must be bool")
    shape = broadcast_shapes("masked_select", x.shape, mask.shape) or (1,)
    return x.expand(*shape), mask.expand(*shape)
