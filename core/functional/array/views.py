"""Copies of views under torch's names, in-place changes of shape, tensors with given strides."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import Layout
from rushlight.core.functional.array.diagonals import diagonal
from rushlight.core.functional.array.joining import split_with_sizes
from rushlight.core.functional.array.selecting import select
from rushlight.core.functional.pieces import chunk, split, unbind
from rushlight.core.functional.shapes import t
from rushlight.core.jit import capture
from rushlight.core.ops.creation import empty, sizes
from rushlight.core.ops.declare import METHODS, PUBLIC, method, public
from rushlight.core.ops.movement import (
    dim_of,
    expand,
    narrow,
    permute,
    slices,
    squeeze,
    transpose,
    unfold,
    unsqueeze,
    view,
)
from rushlight.core.ops.strided import as_strided, places
from rushlight.core.tensor import autograd

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.tensor.tensor import Tensor

    def __getattr__(name: str) -> Any: ...  # the stub imports names that the loops below make


@public
@method()
def slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A view of start:end:step along `dim`."""
    d = dim_of("slice", dim, x)
    low, high, _ = builtins.slice(start, end).indices(x.shape[d])
    bounds = (low, max(low, high), step)
    return slices(x, tuple(bounds if i == d else (0, n, 1) for i, n in enumerate(x.shape)))


def _copied(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(x: Tensor, *args: Any, **options: Any) -> Any:
        found = fn(x, *args, **options)
        return tuple(p.clone() for p in found) if isinstance(found, tuple) else found.clone()

    call.__name__ = call.__qualname__ = f"{name}_copy"
    call.__module__ = __name__
    call.__doc__ = f"`{name}` that copies: the result shares no memory with x."
    return call


def _alias(x: Tensor) -> Tensor:
    return x


def _detached(x: Tensor) -> Tensor:
    return x.detach()


_VIEWS: dict[str, Callable[..., Any]] = {
    "alias": _alias, "as_strided": as_strided, "detach": _detached, "diagonal": diagonal,
    "expand": expand, "narrow": narrow, "permute": permute, "select": select, "slice": slice,
    "split": split, "split_with_sizes": split_with_sizes, "squeeze": squeeze, "t": t,
    "transpose": transpose, "unbind": unbind, "unfold": unfold, "unsqueeze": unsqueeze,
    "view": view,
}  # fmt: skip
for _name, _fn in _VIEWS.items():
    globals()[f"{_name}_copy"] = public(_copied(_name, _fn))
METHODS["narrow_copy"] = PUBLIC["narrow_copy"]


def _reshaped(x: Tensor, found: Tensor) -> Tensor:
    """x with the layout and history of a view of it."""
    if x.requires_grad and x.node is None and autograd.is_grad_enabled():
        raise RuntimeError("a leaf that requires grad cannot change its shape in place")
    if x.is_view:
        x.chain = getattr(found, "chain", None)
    x.layout, x.node, x.needs_grad = found.layout, found.node, found.needs_grad
    return x


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(x: Tensor, *args: Any, **options: Any) -> Tensor:
        return _reshaped(x, fn(x, *args, **options))

    call.__name__ = call.__qualname__ = f"{name}_"
    call.__module__ = __name__
    call.__doc__ = f"`{name}` in place: x gets its shape and strides, and is returned."
    return call


_SHAPES: dict[str, Callable[..., Any]] = {
    "as_strided": as_strided, "squeeze": squeeze, "t": t, "transpose": transpose,
    "unsqueeze": unsqueeze, "swapaxes": transpose, "swapdims": transpose,
}  # fmt: skip
for _name, _fn in _SHAPES.items():
    globals()[f"{_name}_"] = method(f"{_name}_")(_inplace(_name, _fn))


@public
@method()
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    """A copy of x, made contiguous, with `src` at the elements of `as_strided`."""
    offset = x.layout.offset if storage_offset is None else storage_offset
    own = as_strided(x.clone(), size, stride, offset)
    if src.shape != own.shape:
        raise ShapeError(f"as_strided_scatter: src is {src.shape}; it must be {own.shape}")
    flat, at = x.reshape(-1), places(x, own.layout)
    return flat.index_copy(0, at, src.to(x.dtype).reshape(-1)).reshape(*x.shape)


@method()
def resize_(x: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Another shape in place, row-major; more elements than before are zeros."""
    shape = sizes("resize_", size)
    if x.requires_grad:
        raise RuntimeError("resize_: a tensor that requires grad cannot be resized")
    layout = Layout.contiguous(shape)
    room = x.storage.nbytes // x.dtype.itemsize
    if layout.numel <= room:
        capture.memory_replaced(x.storage)
        x.layout = layout
        return x
    out = empty(layout.numel, dtype=x.dtype, device=x.device)
    old = as_strided(x, (room,), (1,), 0)
    out[:room] = old
    return x.set_(out.reshape(*shape))


@method()
def resize_as_(x: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
    return resize_(x, the_template.shape)


PUBLIC["resize_as_"] = resize_as_


def _strided(
    size: Sequence[int], stride: Sequence[int], dtype: DType | str | None, device: Any
) -> Tensor:
    layout = Layout(tuple(size), tuple(stride), 0)
    memory = empty(max(layout.extent[1], 1), dtype=as_dtype(dtype), device=device)
    return as_strided(memory, size, stride)


@public
def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: DType | str | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to write to, with these strides; it holds zeros."""
    out = _strided(size, stride, dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_empty_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: DType | str | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`empty_strided`, by default with the dtype and device of x."""
    out = _strided(size, stride, dtype or x.dtype, device or x.device)
    return out.requires_grad_() if requires_grad else out


@public
def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: DType | str | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to write to, whose dims lie in memory in the order given; it holds zeros."""
    memory = empty([size[d] for d in physical_layout], dtype=dtype, device=device)
    out = permute(memory, *(list(physical_layout).index(d) for d in range(len(size))))
    return out.requires_grad_() if requires_grad else out


for _name, _fn in (("unsafe_chunk", chunk), ("unsafe_split", split),
                   ("unsafe_split_with_sizes", split_with_sizes)):  # fmt: skip
    PUBLIC[_name] = METHODS[_name] = _fn
