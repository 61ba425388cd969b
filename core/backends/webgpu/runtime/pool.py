"""Buffers of the webgpu device, and the pool that reuses freed ones."""

from __future__ import annotations

import itertools
import weakref
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable

from rushlight.core.backends.webgpu.runtime.port import Port
from rushlight.core.basis.errors import DeviceMemoryError

# Freed bytes that are kept; beyond them the least recently used buffer is destroyed first.
BOUND = 256 << 20
_STEP = 256
# Bytes of the first and of the largest buffer that weights share. Chromium rounds what is below
# 4 MB up to a power of two (Dawn's BuddyMemoryAllocator): 553 kB take a megabyte there.
_SHARED, _SHARED_MOST = 1 << 20, 8 << 20


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of four sizes per power of two, at least 256."""
    if nbytes <= _STEP:
        return _STEP
    step = max(_STEP, 1 << ((nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


class Buffer:
    """Memory on the device; it returns to its pool when it has no references.

    planes: where the planes of quantized blocks begin, in bytes from `base`. whole: what is bound,
    in which the memory begins at `base`.
    """

    __slots__ = ("handle", "nbytes", "pool", "planes", "base", "__weakref__")

    def __init__(self, pool: Pool, handle: int, nbytes: int) -> None:
        self.pool, self.handle, self.nbytes = pool, handle, nbytes
        self.planes: tuple[int, ...] = ()
        self.base = 0

    @property
    def buffer(self) -> Buffer:
        """The buffer itself, so that a view of a temporary can use it as its storage."""
        return self

    @property
    def whole(self) -> Buffer:
        """The buffer that this memory is part of."""
        return self

    def __del__(self) -> None:
        # Only recorded, as the garbage collector may run at any time.
        self.pool.dead.append((self.handle, self.nbytes))


class Part(Buffer):
    """Part of a buffer; that returns to its pool when none of its parts has references."""

    __slots__ = ("_whole",)

    def __init__(self, parent: Buffer, base: int, nbytes: int) -> None:
        super().__init__(parent.pool, parent.handle, nbytes)
        self._whole, self.base = parent, base

    @property
    def whole(self) -> Buffer:
        """The buffer that this memory is part of."""
        return self._whole

    def __del__(self) -> None:
        """Nothing: the whole is freed with its last part."""


class Virtual:
    """Memory of a graph during compilation; it gets a buffer at the end.

    handle: negative, as no buffer has it.
    """

    __slots__ = ("handle", "nbytes", "planes")
    base = 0
    _handles = itertools.count(-1, -1)

    def __init__(self, nbytes: int) -> None:
        self.handle, self.nbytes = next(self._handles), nbytes
        self.planes: tuple[int, ...] = ()

    @property
    def buffer(self) -> Virtual:
        """The memory itself, as for Buffer."""
        return self

    @property
    def whole(self) -> Virtual:
        """The memory itself, as for Buffer."""
        return self


class Virtuals:
    """Replaces the pool while a graph is compiled: returns `Virtual` memory."""

    def take(self, nbytes: int) -> Virtual:
        """Memory of at least `nbytes` bytes, with any content."""
        return Virtual(size_class(nbytes))


class Pool:
    """Allocates buffers and reuses freed ones. `budget` bounds the allocated bytes."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.dead: deque[tuple[int, int]] = deque()
        self.free: OrderedDict[int, int] = OrderedDict()  # handle -> size, the oldest first
        self.by_size: dict[int, list[int]] = {}  # size -> handles in order
        self.pending: set[int] = set()  # handles that dispatches still to be submitted use
        self.used = self.kept = 0
        self.bound = BOUND
        self.budget: int | None = None
        self.shared: Callable[[], Buffer | None] = lambda: None  # where weights are placed now
        self.placed = 0  # bytes of it that are taken
        self.forget: list[int] = []  # destroyed handles whose bind groups are to be forgotten

    def take(self, nbytes: int, write: bool = False, lasting: bool = False) -> Buffer:
        """A buffer of at least `nbytes` bytes, with any content; a `lasting` one has few more.

        It is always the lowest free handle, so that a repeated step gets the same buffers and their
        bind groups. Dispatches run in order, so later ones may reuse buffers of pending ones. A
        write of the host runs before all of them, so with `write` such buffers are not used.
        DeviceMemoryError beyond the budget or the device's largest buffer.
        """
        size = max(1, -(-nbytes // _STEP)) * _STEP if lasting else size_class(nbytes)
        self.collect()
        most = self.port.limits["maxBufferSize"]
        if nbytes > most:
            raise DeviceMemoryError(
                f"webgpu: a buffer of {nbytes} bytes exceeds the adapter's largest, {most}",
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

    def place(self, nbytes: int) -> Buffer:
        """Memory of at least `nbytes` bytes that only dispatches write, and none that reads it.

        It lasts, so it is no larger than needed, and small memory is part of a buffer that others
        share. WebGPU lets no dispatch read and write the same buffer, whatever the parts.
        """
        size = -(-nbytes // _STEP) * _STEP
        if size > _SHARED_MOST // 2:
            return self.take(nbytes, lasting=True)
        shared = self.shared()
        if shared is None or self.placed + size > shared.nbytes:
            most = _SHARED if shared is None else min(2 * shared.nbytes, _SHARED_MOST)
            if self.budget is not None:
                most = min(most, (self.budget - self.used) // 2)
            shared = self.take(max(most, size), lasting=True)
            self.shared, self.placed = weakref.ref(shared), 0
        self.placed += size
        return Part(shared, self.placed - size, size)

    def _make(self, size: int) -> int:
        """A new buffer; if memory is short, kept buffers are destroyed first."""
        try:
            return self.port.buffer(size)
        except DeviceMemoryError:
            if not self._drop(0):
                raise
            self.port.check()  # their memory is free once the work that uses them is done
            return self.port.buffer(size)

    def collect(self) -> None:
        """Recover the buffers without references."""
        while self.dead:
            handle, size = self.dead.popleft()
            self.used -= size
            self.kept += size
            self.free[handle] = size
            insort(self.by_size.setdefault(size, []), handle)

    def trim(self, bound: int | None = None) -> None:
        """Destroy freed buffers beyond the bound that no pending work uses."""
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
