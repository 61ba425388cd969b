"""Readback: a read of a device's values that has begun and can be waited for later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class Readback(Generic[T]):
    """A value that is being read from a device: `await` it, or call `wait()`, which blocks.

    The value is that at the time of the request. Dropping a readback without waiting is allowed.
    """

    def wait(self) -> T:
        """The value; blocks."""
        raise NotImplementedError

    async def later(self) -> T:
        """The value, without blocking."""
        return self.wait()

    def __await__(self) -> Generator[Any, None, T]:
        return self.later().__await__()

    def then(self, change: Callable[[T], S]) -> Readback[S]:
        """A readback of `change(value)`."""
        return _Then(self, change)


class CompletedReadback(Readback[T]):
    """A readback whose value is known already."""

    def __init__(self, value: T) -> None:
        self.value = value

    def wait(self) -> T:
        """The value."""
        return self.value


class _Then(Readback[S]):
    def __init__(self, source: Readback[Any], change: Callable[[Any], S]) -> None:
        self.source, self.change = source, change

    def wait(self) -> S:
        return self.change(self.source.wait())

    async def later(self) -> S:
        return self.change(await self.source.later())
