"""torch.futures: a value that may be there later. Here work is done when it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that another thread may set; `wait` blocks until then."""

    def __init__(self, *, devices: Any = None) -> None:
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._calls: list[Callable[[Future], Any]] = []
        self._value: Any = None
        self._error: BaseException | None = None

    def __class_getitem__(cls, item: Any) -> type[Future]:
        return cls

    def done(self) -> bool:
        """Whether it has a value or an error."""
        return self._ready.is_set()

    def wait(self) -> Any:
        """The value, once it is there; raises the error that was set."""
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> Any:
        """The value; RuntimeError before it is set."""
        if not self.done():
            raise RuntimeError("Future.value: not done yet; call wait()")
        return self.wait()

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._ready.is_set():
                raise RuntimeError("Future: the result was set before")
            self._value, self._error = value, error
            self._ready.set()
            calls, self._calls = self._calls, []
        for call in calls:
            call(self)

    def set_result(self, result: Any) -> None:
        """Give it its value; RuntimeError the second time."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Let `wait` raise this error."""
        self._finish(None, result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call callback(self) when it is done, at once if it is."""
        with self._lock:
            if not self._ready.is_set():
                self._calls.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what callback(self) returns."""
        following = Future()

        def run(done: Future) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(run)
        return following


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of these futures, when all of them are done."""
    for each in futures:
        each._ready.wait()
    future = Future()
    future.set_result(futures)
    return future


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all of them."""
    return [each.wait() for each in futures]
