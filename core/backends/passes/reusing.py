"""The pass "reuse": several values, of one graph or of several, share a buffer in turn."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
Held = tuple[int, int, Any]  # bytes, a unique number, the buffer
_SPARE = 256  # a new buffer may exceed the request by these bytes plus the request's size


class SharedBuffers:
    """Buffers that executables share. Only the holder of `lock` may run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._buffers: list[weakref.ref[Any]] = []

    def buffers(self) -> list[Any]:
        """The buffers that an executable still uses."""
        return [b for ref in self._buffers if (b := ref()) is not None]

    def add(self, new: Any) -> None:
        """Add a buffer."""
        self._buffers = [*map(weakref.ref, self.buffers()), weakref.ref(new)]


def reuse(
    uses: Sequence[Collection[K]],
    sizes: Mapping[K, int],
    pooled: Iterable[Held],
    make: Callable[[int], Held],
) -> dict[K, Any]:
    """A buffer for each value of `sizes` (in bytes), from its first to its last use.

    uses: the values that are written or read at each time. there: buffers of other executables,
    which may be of any size; a small value does not use a large new buffer. make: returns a new
    buffer.
    """
    last = {key: i for i, keys in enumerate(uses) for key in keys if key in sizes}
    free = sorted(pooled)
    old = {number for _, number, _ in free}
    assigned: dict[K, Held] = {}
    for i, keys in enumerate(uses):
        used = [key for key in dict.fromkeys(keys) if key in last]
        for key in used:
            if key not in assigned:
                size = sizes[key]
                place = bisect_left(free, (size,))
                fits = place < len(free) and (
                    free[place][0] <= 2 * size + _SPARE or free[place][1] in old
                )
                assigned[key] = free.pop(place) if fits else make(size)
        for key in used:
            if last[key] == i:
                insort(free, assigned[key])
    return {key: buffer for key, (_, _, buffer) in assigned.items()}
