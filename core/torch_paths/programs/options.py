"""Options of torch's compiler (torch._dynamo.config and its like): any may be set and read.

None changes what is captured here. One that was not set reads as false.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class _Options(SimpleNamespace):
    """Options in a group, such as `config.triton`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.__dict__[name] = _Options()
        return value

    def __bool__(self) -> bool:
        return False


@contextmanager
def patch(*args: Any, **options: Any) -> Iterator[None]:
    """Accepted for the block; also a decorator."""
    yield


def __getattr__(name: str) -> Any:
    """A group of options."""
    if name.startswith("__"):
        raise AttributeError(name)
    value = globals()[name] = _Options()
    return value
