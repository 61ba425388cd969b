"""Streams and events: a device runs its calls in one order, which is the only stream.

An event notes the host's clock after the device's pending work, so `elapsed_time` is true.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.backends import instantiated

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


def _wait() -> None:
    for each in instantiated():
        each.synchronize()


class Stream:
    """The order of a device's calls. Waiting for it waits for the device.

    `device` is kept; `priority` and `options` change nothing. It raises nothing.
    """

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.device, self.priority = device, priority

    def synchronize(self) -> None:
        """Wait for the pending work of every device."""
        _wait()

    def query(self) -> bool:
        """True once the pending work is done, for which it waits."""
        _wait()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to do: calls run in order."""

    def wait_event(self, event: Event) -> None:
        """Nothing to do: calls run in order."""

    def record_event(self, event: Event | None = None) -> Event:
        """Note the time in the event, or in a new one."""
        event = Event() if event is None else event
        event.record()
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    __hash__ = object.__hash__


ExternalStream = Stream


class Event:
    """A point in time on the host's clock, after the work that was pending then.

    `args`, `enable_timing` and `options` change nothing. It raises nothing.
    """

    def __init__(self, *args: Any, enable_timing: bool = False, **options: Any) -> None:
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        """Wait for the pending work and note the time."""
        _wait()
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing to do: calls run in order."""

    def synchronize(self) -> None:
        """Nothing to do: `record` has waited."""

    def query(self) -> bool:
        """True: `record` has waited."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to the other; RuntimeError before both are recorded."""
        if self._at is None or end_event._at is None:
            raise RuntimeError("elapsed_time: both events must be recorded first")
        return (end_event._at - self._at) * 1000


class StreamContext:
    """Context manager that names a stream; it changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    """The same as `StreamContext`."""
    yield


def current_stream(device: Any = None) -> Stream:
    """The only stream."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Any) -> None:
    """Accepted: there is one stream."""
