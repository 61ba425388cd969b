"""Parameter and Buffer: tensors that a module learns, and tensors that move with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import LoadError
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module learns. As an attribute it is one of `module.parameters()`.

    It shares the memory of `data`. TypeError if requires_grad is set for a non-floating dtype.
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        data = ops.empty((0,)) if data is None else data
        super().__init__(data.storage, data.dtype, data.layout)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __reduce__(self) -> Any:
        make, state = super().__reduce__()
        return _unpickled, (make, state, self.requires_grad)


def _unpickled(make: Callable[..., Tensor], state: tuple[Any, ...], needs: bool) -> Parameter:
    return Parameter(make(*state), needs)


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module that it is assigned to; see `register_buffer`.

    It shares the memory of `data`.
    """

    __slots__ = ("persistent",)

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        data = ops.empty((0,)) if data is None else data
        super().__init__(data.storage, data.dtype, data.layout)
        self.persistent = persistent

    def _remade(self, storage: Storage) -> Tensor:
        out = super()._remade(storage)
        assert isinstance(out, Buffer)
        out.persistent = self.persistent
        return out

    def __reduce__(self) -> Any:
        make, state = super().__reduce__()
        return _unpickled_buffer, (make, state, self.persistent)


def _unpickled_buffer(make: Callable[..., Tensor], state: Any, persistent: bool) -> Buffer:
    return Buffer(make(*state), persistent=persistent)


# How many parameters layers may still make, and what an error says of more.
_room: ContextVar[tuple[list[int], str] | None] = ContextVar("room", default=None)


@contextmanager
def at_most(count: int, told: str) -> Iterator[None]:
    """Let layers make at most `count` parameters in this context; LoadError(told) at the next.

    Those on the meta device are small, but a damaged file may ask for a hundred million.
    """
    token = _room.set(([count], told))
    try:
        yield
    finally:
        _room.reset(token)


def parameter(*size: int) -> Parameter:
    """A float32 parameter of this shape on the meta device, without memory."""
    if (room := _room.get()) is not None:
        left, message = room
        if not left[0]:
            raise LoadError(message)
        left[0] -= 1
    return Parameter(ops.empty(size, device="meta"))
