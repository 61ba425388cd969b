"""Hooks of tensors: functions that backward calls with a gradient, or after it is in `.grad`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.jit import capture

if TYPE_CHECKING:
    from rushlight.core.tensor.history import History
    from rushlight.core.tensor.tensor import Tensor

_numbers = itertools.count()
leaves = 0  # hooks of leaves ever registered: without any, backward looks for none


class RemovableHandle:
    """What registering a hook returns; `remove()` takes the hook away. Also a context manager."""

    def __init__(self, remove: Callable[[int], object]) -> None:
        self._remove, self.id = remove, next(_numbers)

    def remove(self) -> None:
        """Take the hook away; again has no effect."""
        self._remove(self.id)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one tensor: on its gradient, after it is accumulated, and tensors to fill in.

    retained: the tensors whose .grad gets the gradient that the hooks gave.
    """

    __slots__ = ("after", "grad", "retained")

    def __init__(self) -> None:
        self.grad: dict[int, Callable[[Tensor], Any]] = {}
        self.after: dict[int, Callable[[Tensor], Any]] = {}
        self.retained: list[Any] = []

    def changed(self, grad: Tensor) -> Tensor:
        """The gradient after every hook, each of which may return another one."""
        for hook in list(self.grad.values()):
            new = hook(grad)
            if new is None:
                continue
            name = getattr(hook, "__name__", type(hook).__name__)
            if not hasattr(new, "storage"):
                raise TypeError(
                    f"hook {name!r} gave a {type(new).__name__}; it must give a tensor or None"
                )
            if (new.shape, new.dtype, new.device) != (grad.shape, grad.dtype, grad.device):
                raise RuntimeError(
                    f"hook {name!r} has changed the gradient from {grad.dtype.name} of shape "
                    f"{grad.shape} on {grad.device} to {new.dtype.name} of shape {new.shape} on "
                    f"{new.device}"
                )
            grad = new
        return grad


def of(tensor: History) -> Hooks:
    """The hooks of a tensor that needs a gradient: of its node, or its own if it is a leaf."""
    owner: Any = tensor if tensor.node is None else tensor.node
    hooks: Hooks | None = getattr(owner, "hooks", None)
    if hooks is None:
        hooks = owner.hooks = Hooks()
    return hooks


def add(tensor: History, kind: str, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Register a hook of one kind, "grad" or "after".

    Raises TypeError for no function, RuntimeError for a `tensor` that needs no gradient.
    """
    global leaves
    if not callable(hook):
        raise TypeError(f"a hook must be callable, not a {type(hook).__name__}")
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    table = getattr(of(tensor), kind)

    def remove(number: int) -> None:
        if table.pop(number, None) is not None and leaf:
            _changed()

    handle, leaf = RemovableHandle(remove), tensor.node is None
    table[handle.id] = hook
    if leaf:
        leaves += 1
        _changed()
    return handle


def _changed() -> None:
    if capture.capturing():
        capture.refuse("it registers or removes a hook of a leaf")
    else:
        capture.child_replaced()  # captured functions did not call the hook
