"""Reading from a wgpu-py device: copies into mapped buffers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends.protocol import Bytes
from rushlight.core.backends.readback import Readback
from rushlight.core.backends.webgpu.runtime.port import Range, lost

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.runtime.native import NativePort

_SMALL = 4096  # bytes of a staging buffer that is kept


class Reading(Readback[list[Bytes]]):
    """A readback of ranges; their contents are copied when it is made."""

    def __init__(self, port: NativePort, ranges: Sequence[Range]) -> None:
        self.port, self.ranges = port, ranges
        self.total = sum(n for _, _, n in ranges)
        self.staging: Any = None
        if not self.total:
            return
        if self.total <= _SMALL and port.spare:
            self.staging = port.spare.pop()
        else:
            u = port._w.BufferUsage
            size = max(self.total, _SMALL)
            self.staging = port._guard(
                lambda: port.device.create_buffer(size=size, usage=u.MAP_READ | u.COPY_DST)
            )
        port._guard(lambda: port._copy(ranges, self.staging))
        # wgpu-py waits for all that was submitted until then: before more is. It would submit
        # once more, lest writes to the buffer still wait; here there are none.
        self.promise = port._guard(self._mapping)

    def _mapping(self) -> Any:
        """The promise of wgpu-py's, which belongs to no event loop: another one may wait for it."""
        hooks = sys.get_asyncgen_hooks()  # by which wgpu-py finds the loop
        sys.set_asyncgen_hooks(None, None)
        try:
            return self.staging.map_async("READ_NOSYNC", 0, self.total)
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def wait(self) -> list[Bytes]:
        """The contents; blocks."""
        if self.total:
            self._check()
            self._again(self.promise.sync_wait)
        return self._taken()

    async def later(self) -> list[Bytes]:
        """The contents, while an event loop runs; without a loop it blocks."""
        if self.total:
            if asyncio._get_running_loop() is None:
                return self.wait()
            await self._settled()
        return self._taken()

    async def _settled(self) -> None:
        """Wait for a promise, which never resolves once its device was destroyed."""
        self._check()
        loop, promise = asyncio.get_running_loop(), self.promise
        settled = loop.create_future()

        def settle() -> None:
            if not settled.done():
                settled.set_result(None)

        def look() -> None:
            timers[0] = loop.call_later(0.1, look)
            if self.port.device._poller is None:
                settle()

        timers = [loop.call_later(0.1, look)]
        promise._call_soon_threadsafe = lambda _: loop.call_soon_threadsafe(settle)
        try:
            if promise._state == "pending":
                await settled
            else:  # let other tasks run
                await asyncio.sleep(0)
        finally:
            timers[0].cancel()
            promise._call_soon_threadsafe = None
        self._check()
        self._again(promise.sync_wait)

    def _check(self) -> None:
        # wgpu-py's thread that looks after promises ends with the device; reading what was
        # mapped on it would end the process.
        port = self.port
        if port.device._poller is None:
            port._lost = port._lost or "it was destroyed"
            raise lost(port._lost)

    def _again(self, call: Any) -> None:
        try:
            call()
        except self.port._w.GPUError as error:
            self.port._guard(partial(_raise, error))

    def _taken(self) -> list[Bytes]:
        if self.staging is None:
            return cut(np.empty(0, np.uint8), self.ranges)
        encoding = self.port._encoding
        mapped = encoding.lib.wgpuBufferGetConstMappedRange(self.staging._internal, 0, self.total)
        data = np.frombuffer(encoding.ffi.buffer(mapped, self.total), np.uint8).copy()
        if self.staging.size == _SMALL:
            self.staging.unmap()
            self.port.spare.append(self.staging)
        else:
            self.staging.destroy()
        self.staging = None
        return cut(data, self.ranges)


def _raise(error: Exception) -> None:
    raise error


def cut(data: Bytes, ranges: Sequence[Range]) -> list[Bytes]:
    """The parts of `data` that the ranges make up."""
    pieces, offset = [], 0
    for _, _, nbytes in ranges:
        pieces.append(data[offset : offset + nbytes])
        offset += nbytes
    return pieces
