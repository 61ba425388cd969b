"""Buffers of the webgpu device, and the pool that freed ones wait in to be used again."""

from __future__ import annotations

import itertools
from bisect import insort
from collections import OrderedDict, deque

from rushlight.core.backends.webgpu.port import Port
from rushlight.core.errors import DeviceMemoryError

# Freed bytes that are kept; what goes beyond is destroyed, the longest unused first.
BOUND = 256 << 20
_STEP = 256


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of four sizes per power of two, at least 256."""
    if nbytes <= _STEP:
        return _STEP
    step = max(_STEP, 1 << ((nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


class Buffer:
    """Memory on the device; goes back to its pool when nothing refers to it any more."""

    __slots__ = ("handle", "nbytes", "pool", "planes", "__weakref__")

    def __init__(self, pool: Pool, handle: int, nbytes: int) -> None:
        self.pool, self.handle, self.nbytes = pool, handle, nbytes
        self.planes: tuple[int, ...] = ()  # where the planes of quantized blocks begin, in bytes

    def __del__(self) -> None:
        # Only noted: the garbage collector may run in the middle of anything.
        self.pool.dead.append((self.handle, self.nbytes))


class Virtual:
    """Memory of a plan in the making: it gets a buffer when the plan is done.

    handle: negative, as no buffer has it.
    """

    __slots__ = ("handle", "nbytes", "planes")
    _handles = itertools.count(-1, -1)

    def __init__(self, nbytes: int) -> None:
        self.handle, self.nbytes = next(self._handles), nbytes
        self.planes: tuple[int, ...] = ()


class Virtuals:
    """Stands for the pool while a plan is made: gives `Virtual` memory."""

    def take(self, nbytes: int) -> Virtual:
        """Memory of at least `nbytes` bytes, with any content."""
        return Virtual(size_class(nbytes))


class Pool:
    """Gives out buffers and takes them back. `budget` bounds what is given out, in bytes."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.dead: deque[tuple[int, int]] = deque()
        self.free: OrderedDict[int, int] = OrderedDict()  # handle -> size, the oldest first
        self.by_size: dict[int, list[int]] = {}  # size -> handles in order
        self.pending: set[int] = set()  # handles that dispatches still to be submitted use
        self.used = self.kept = 0
        self.bound = BOUND
        self.budget: int | None = None
        self.forget: list[int] = []  # destroyed handles whose bind groups are to be forgotten

    def take(self, nbytes: int, write: bool = False) -> Buffer:
        """A buffer of at least `nbytes` bytes, with any content.

        Always the lowest handle that is free, so that a step that is repeated finds the same
        buffers, and with them its bind groups. Dispatches run in order, so what pending ones use
        may be used again by later ones; but not for a write of the host's, which would come before
        all of them: with `write` such buffers are left. DeviceMemoryError beyond the budget or
        the device's largest buffer.
        """
        size = size_class(nbytes)
        self.collect()
        most = self.port.limits["maxBufferSize"]
        if nbytes > most:
            raise DeviceMemoryError(
                f"webgpu: a buffer of {nbytes} bytes is asked for, the adapter's largest is {most}",
                hint="split the tensor, or keep it on the cpu device",
            )
        size = min(size, most // 4 * 4)
        if self.budget is not None and self.used + size > self.budget:
            raise DeviceMemoryError(
                f"webgpu: {size} bytes more than the {self.used} in use exceed the memory budget "
                f"of {self.budget}",
                hint='free tensors, or raise it: rl.device("webgpu").set_memory_budget(...)',
            )
        waiting = self.by_size.get(size, [])
        if write and self.pending:
            handle = next((h for h in waiting if h not in self.pending), 0)
        else:
            handle = waiting[0] if waiting else 0
        if handle:
            waiting.remove(handle)
            del self.free[handle]
            self.kept -= size
        else:
            handle = self._make(size)
        self.used += size
        return Buffer(self, handle, size)

    def _make(self, size: int) -> int:
        """A new buffer; where there is no memory, what the pool keeps goes first."""
        try:
            return self.port.buffer(size)
        except DeviceMemoryError:
            if not self._drop(0):
                raise
            self.port.check()  # their memory comes back when nothing runs that used them
            return self.port.buffer(size)

    def collect(self) -> None:
        """Take back the buffers that nothing refers to any more."""
        while self.dead:
            handle, size = self.dead.popleft()
            self.used -= size
            self.kept += size
            self.free[handle] = size
            insort(self.by_size.setdefault(size, []), handle)

    def trim(self, bound: int | None = None) -> None:
        """Destroy freed buffers beyond the bound that nothing pending uses."""
        self.collect()
        if self.kept > (self.bound if bound is None else bound):
            self._drop(self.bound if bound is None else bound)

    def _drop(self, bound: int) -> int:
        """Destroy kept buffers, the longest unused first, down to `bound` bytes; how many."""
        gone = 0
        for handle, size in list(self.free.items()):
            if self.kept <= bound:
                break
            if handle not in self.pending:
                del self.free[handle]
                self.by_size[size].remove(handle)
                self.kept -= size
                self.port.free(handle)
                self.forget.append(handle)
                gone += 1
        return gone
