"""Slices, copies of views under torch's names, and views that a tensor becomes in place."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ArgumentError
from rushlight.core.functional.diagonals import diagonal
from rushlight.core.functional.indexing import select
from rushlight.core.functional.joining import chunk, split, split_with_sizes, unbind
from rushlight.core.functional.shape import t
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
from rushlight.core.ops.strided import as_strided
from rushlight.core.tensor import autograd

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

    def __getattr__(name: str) -> Any: ...  # the stub imports names that the loops below make


@public
@method()
def slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A view of start:end:step along `dim`.

    `x` keeps its memory. Raises IndexError for a dim that there is not, ValueError for a step below
    1.
    """
    d = dim_of("slice", dim, x)
    if step < 1:
        raise ArgumentError(f"slice: step {step} is not positive; use flip to go backwards")
    low, high, _ = builtins.slice(start, end).indices(x.shape[d])
    bounds = (low, max(low, high), step)
    return slices(x, tuple(bounds if i == d else (0, n, 1) for i, n in enumerate(x.shape)))


def _copied(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(x: Tensor, *args: Any, **options: Any) -> Any:
        views = fn(x, *args, **options)
        return tuple(p.clone() for p in views) if isinstance(views, tuple) else views.clone()

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


def _reshaped(x: Tensor, source: Tensor) -> Tensor:
    """x with the layout and history of a view of it."""
    if x.requires_grad and x.node is None and autograd.is_grad_enabled():
        raise RuntimeError("a leaf that requires grad cannot change its shape in place")
    if x.is_view:
        x.chain = getattr(source, "chain", None)
    x.layout, x.node, x.needs_grad = source.layout, source.node, source.needs_grad
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
    "as_strided": as_strided,
    "squeeze": squeeze,
    "t": t,
    "transpose": transpose,
    "unsqueeze": unsqueeze,
    "swapaxes": transpose,
    "swapdims": transpose,
}


for _name, _fn in _SHAPES.items():
    globals()[f"{_name}_"] = method(f"{_name}_")(_inplace(_name, _fn))


for _name, _fn in (
    ("unsafe_chunk", chunk),
    ("unsafe_split", split),
    ("unsafe_split_with_sizes", split_with_sizes),
):
    PUBLIC[_name] = METHODS[_name] = _fn
