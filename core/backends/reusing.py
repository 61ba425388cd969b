"""The pass "reuse", of the plans of every device: one buffer serves several values in turn."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
Held = tuple[int, int, Any]  # bytes, a number of its own, the buffer
_SPARE = 256  # bytes, and as many as are asked for, that a new buffer may be too large by


def reuse(
    uses: Sequence[Collection[K]], sizes: Mapping[K, int], there: Iterable[Held],
    make: Callable[[int], Held],
) -> dict[K, Any]:  # fmt: skip
    """A buffer for each value from its first to its last use, of those in `sizes` (in bytes).

    uses: the values that are written or read at each time. there: buffers that other plans have,
    which serve whatever their size: small values leave only new large ones alone. make: a new one.
    """
    last = {key: i for i, keys in enumerate(uses) for key in keys if key in sizes}
    free = sorted(there)
    old = {number for _, number, _ in free}
    found: dict[K, Held] = {}
    for i, keys in enumerate(uses):
        mine = [key for key in dict.fromkeys(keys) if key in last]
        for key in mine:
            if key not in found:
                size = sizes[key]
                at = bisect_left(free, (size,))
                fits = at < len(free) and (free[at][0] <= 2 * size + _SPARE or free[at][1] in old)
                found[key] = free.pop(at) if fits else make(size)
        for key in mine:
            if last[key] == i:
                insort(free, found[key])
    return {key: buffer for key, (_, _, buffer) in found.items()}
