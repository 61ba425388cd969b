"""Memory of large tensors, kept when they are freed for the next ones of their size.

A system takes large freed memory back and gives it again page by page, each of which it fills with
zeros at the first touch: that costs several times what an elementwise op does. A WebAssembly
process keeps its memory anyway.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

LEAST, MOST = 1 << 17, 1 << 24  # bytes of an array that is kept
KEPT = 1 << 25  # bytes of all that are free
LINE = 64  # bytes of a cache line, at whose beginning such an array lies
_idle: dict[int, list[Bytes]] = {}  # by their size


class _Lent:
    """The owner of an array: when nothing refers to the array any more, its memory is kept."""

    __slots__ = ("_memory",)

    def __init__(self, memory: Bytes) -> None:
        self._memory = memory

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self, idle: dict[int, list[Bytes]] = _idle, most: int = KEPT) -> None:
        # Each step is one that threads, and an owner that ends within it, cannot divide.
        size = self._memory.size
        if sum(n * len(arrays) for n, arrays in list(idle.items())) + size > most:
            idle.clear()
        idle.setdefault(size, []).append(self._memory)


def allocate(nbytes: int) -> Bytes:
    """An array of bytes, not initialised; MemoryError where there is no memory."""
    lent = LEAST <= nbytes <= MOST and sys.platform != "emscripten"
    if lent:
        try:
            return np.asarray(_Lent(_idle[nbytes].pop()))
        except LookupError:
            pass
    try:
        memory = np.empty(nbytes + LINE * lent, np.uint8)
    except MemoryError:
        _idle.clear()
        memory = np.empty(nbytes + LINE * lent, np.uint8)
    if not lent:
        return memory
    first = -memory.__array_interface__["data"][0] % LINE
    return np.asarray(_Lent(memory[first : first + nbytes]))
