"""Values on their way from a device: asked for before what comes later, and waited for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class Coming(Generic[T]):
    """A value that a device was asked for: `await` it, or `wait()`, which blocks.

    It is as it was when it was asked for. One that nobody waits for takes nothing with it.
    """

    def wait(self) -> T:
        """The value; blocks."""
        raise NotImplementedError

    async def later(self) -> T:
        """The value, without blocking."""
        return self.wait()

    def __await__(self) -> Generator[Any, None, T]:
        return self.later().__await__()

    def then(self, change: Callable[[T], S]) -> Coming[S]:
        """What `change` makes of the value once it is there."""
        return _Then(self, change)


class Ready(Coming[T]):
    """A value that is there already."""

    def __init__(self, value: T) -> None:
        self.value = value

    def wait(self) -> T:
        """The value."""
        return self.value


class _Then(Coming[S]):
    def __init__(self, source: Coming[Any], change: Callable[[Any], S]) -> None:
        self.source, self.change = source, change

    def wait(self) -> S:
        return self.change(self.source.wait())

    async def later(self) -> S:
        return self.change(await self.source.later())
