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
MOST_IDLE = 1 << 25  # bytes of all that are free
LINE = 64  # bytes of a cache line, at whose beginning such an array lies
# Bytes of a huge page, at whose beginning an array of nearly as many lies. NumPy asks Linux for
# such pages where it allocates ASKED bytes or more; each saves the look-ups of 512 small ones.
HUGE, ASKED = 1 << 21, 1 << 22
Memory = tuple[Bytes, dict[str, Any]]  # with its array interface, which takes long to make
_idle: dict[int, list[Memory]] = {}  # by their size


class _RecycledArray:
    """The owner of an array: when nothing refers to the array any more, its memory is kept."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.__array_interface__ = memory[1]

    def __del__(self, idle: dict[int, list[Memory]] = _idle, most: int = MOST_IDLE) -> None:
        # Each step is one that threads, and an owner that ends within it, cannot divide.
        total = size = self._memory[0].size
        for n, arrays in list(idle.items()):
            total += n * len(arrays)
        if total > most:
            idle.clear()
        idle.setdefault(size, []).append(self._memory)


def allocate(nbytes: int) -> Bytes:
    """An array of bytes, not initialised; MemoryError where there is no memory."""
    recycled = LEAST <= nbytes <= MOST and sys.platform != "emscripten"
    if recycled:
        try:
            return np.asarray(_RecycledArray(_idle[nbytes].pop()))
        except LookupError:
            pass
    alignment = 0 if not recycled else LINE if nbytes < HUGE * 3 // 4 else HUGE
    size = max(nbytes + alignment, ASKED if alignment == HUGE else 0)
    try:
        memory = np.empty(size, np.uint8)
    except MemoryError:
        _idle.clear()
        memory = np.empty(size, np.uint8)
    if not recycled:
        return memory
    first = -memory.__array_interface__["data"][0] % alignment
    aligned = memory[first : first + nbytes]
    return np.asarray(_RecycledArray((aligned, aligned.__array_interface__)))
