"""The interpreters of ops that run on this thread, one vmap inside another.

A tensor of a vmap has a `level`, its interpreter's number: 1 of the outermost one, 0 of none. An op
with such an operand calls `run`, or `write` in place; core/func/ supplies both. They are called
only while `active` is not zero, so an eager op costs one read of a global more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.tensor.op import Op
    from rushlight.core.tensor.tensor import Tensor

active = 0  # interpreters, on all threads
_lock = threading.Lock()


class Interpreter:
    """One running vmap: its number, how many samples it has, and what random ops do in it."""

    def __init__(self, number: int, size: int, randomness: str) -> None:
        self.number, self.size, self.randomness = number, size, randomness
        self.alive = True


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Interpreter] = []


class Handlers:
    """What core/func/ supplies.

    new_like(x, make, shape) gives make(shape) with memory for every sample of x.
    run(op, inputs, attrs) gives the result of an op. write(op, inputs, attrs) writes it over the
    first input. move(x, device) gives x on another device. wrap(value, level) gives the tensor
    whose samples lie along dim 0 of `value`.
    """

    new_like: Callable[[Tensor, Callable[[tuple[int, ...]], Tensor], tuple[int, ...]], Tensor]
    run: Callable[[Op, Sequence[Tensor | None], Mapping[str, Any]], Tensor]
    write: Callable[[Op, Sequence[Tensor | None], Mapping[str, Any]], None]
    move: Callable[[Tensor, Device], Tensor]
    wrap: Callable[[Tensor, Interpreter], Tensor]


_local = _Local()
handlers = Handlers()


@contextmanager
def entered(size: int, randomness: str) -> Iterator[Interpreter]:
    """A new innermost interpreter, until the block ends."""
    global active
    interpreter = Interpreter(len(_local.stack) + 1, size, randomness)
    _local.stack.append(interpreter)
    with _lock:
        active += 1
    try:
        yield interpreter
    finally:
        _local.stack.pop()
        interpreter.alive = False
        with _lock:
            active -= 1


def innermost() -> Interpreter | None:
    """The interpreter of this thread's innermost vmap."""
    return _local.stack[-1] if _local.stack else None


def any_batched(tensors: Sequence[Tensor | None]) -> bool:
    """Whether one of these is a tensor of a vmap."""
    return any(t is not None and t.level for t in tensors)


def draw_per_sample(draw: Callable[[tuple[int, ...]], Tensor], shape: tuple[int, ...]) -> Tensor:
    """Random numbers within vmap, as its `randomness` says."""
    interpreter = _local.stack.pop()
    try:
        if interpreter.randomness == "error":
            raise RuntimeError(
                "vmap: a random op was called; say randomness='same' or randomness='different'"
            )
        shared = interpreter.randomness == "same"
        numbers = draw(shape if shared else (interpreter.size, *shape))
    finally:
        _local.stack.append(interpreter)
    return numbers if shared else handlers.wrap(numbers, interpreter)


def new_like(
    x: Tensor, make: Callable[[tuple[int, ...]], Tensor], shape: tuple[int, ...]
) -> Tensor:
    """A new tensor make(shape), with memory for every sample of x to write to.

    Raises what make raises.
    """
    return handlers.new_like(x, make, shape) if x.level else make(shape)
