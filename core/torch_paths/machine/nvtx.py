"""torch.cuda.nvtx and profiler.itt: marks for a profiler of the machine, which are not sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def is_available() -> bool:
    """False."""
    return False


def mark(msg: str) -> None:
    """Nothing is sent."""


def range_push(msg: str) -> int:
    """Nothing is sent: 0."""
    return 0


def range_pop() -> int:
    """Nothing is sent: 0."""
    return 0


def range_start(msg: str) -> int:
    """Nothing is sent: 0."""
    return 0


def range_end(range_id: int) -> None:
    """Nothing is sent."""


def start() -> None:
    """Nothing is sent."""


def stop() -> None:
    """Nothing is sent."""


@contextmanager
def range(msg: str, *args: Any, **options: Any) -> Iterator[None]:
    """Nothing is sent."""
    yield


@contextmanager
def profile() -> Iterator[None]:
    """Nothing is sent."""
    yield
