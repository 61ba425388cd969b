"""Timestamps over wgpu-py: each dispatch has its own pass, which writes its begin and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rushlight.core.backends.webgpu.runtime.port import TIMED, Range

R = TypeVar("R")
_ROOM = 1 << 20  # bytes of timestamps in a buffer


class Timer:
    """Encodes dispatches with timestamps, which gather in buffers that the port reads.

    keep: gives a buffer a number. period: nanoseconds of a tick.
    """

    def __init__(self, device: Any, keep: Callable[[Any], int]) -> None:
        from wgpu.backends.wgpu_native._ffi import ffi, lib

        self.device, self.keep = device, keep
        self._null: Any = ffi.NULL
        self._lib: Any = lib
        self.period = float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal))
        self.queries = device.create_query_set(type="timestamp", count=2 * TIMED)
        self.ranges: list[Range] = []
        self._buffer: Any = None
        self._handle = self._used = 0

    def run(self, rows: Sequence[Any], parameters: Any) -> None:
        """Encode and submit, in parts of TIMED dispatches."""
        state: list[Any] = [None, None, None]
        for first in range(0, len(rows), TIMED):
            self._part(rows[first : first + TIMED], parameters, state)

    def _part(self, rows: Sequence[Any], parameters: Any, state: list[Any]) -> None:
        lib, null = self._lib, self._null
        encoder = self.device.create_command_encoder()
        for i, (*bound, x, y, z) in enumerate(rows):
            # A row leaves out values equal to the row before; a pass begins with none.
            state[:] = [old if new is None else new for old, new in zip(state, bound, strict=True)]
            run = encoder.begin_compute_pass(
                timestamp_writes={
                    "query_set": self.queries,
                    "beginning_of_pass_write_index": 2 * i,
                    "end_of_pass_write_index": 2 * i + 1,
                }
            )
            inner = run._internal
            lib.wgpuComputePassEncoderSetPipeline(inner, state[0])
            lib.wgpuComputePassEncoderSetBindGroup(inner, 0, state[1], 0, null)
            lib.wgpuComputePassEncoderSetBindGroup(inner, 1, parameters, 1, state[2])
            lib.wgpuComputePassEncoderDispatchWorkgroups(inner, x, y, z)
            run.end()
        nbytes = 16 * len(rows)
        self._make_room(nbytes)
        encoder.resolve_query_set(self.queries, 0, 2 * len(rows), self._buffer, self._used)
        self.ranges.append((self._handle, self._used, nbytes))
        self._used += -(-nbytes // 256) * 256
        self.device.queue.submit([encoder.finish()])

    def _make_room(self, nbytes: int) -> None:
        from wgpu import BufferUsage

        if self._buffer is None or self._used + nbytes > _ROOM:
            self._buffer = self.device.create_buffer(
                size=_ROOM, usage=BufferUsage.QUERY_RESOLVE | BufferUsage.COPY_SRC
            )
            self._handle, self._used = self.keep(self._buffer), 0


class Timed:
    """The part of the port that times dispatches."""

    device: Any
    _buffers: dict[int, Any]
    _command_lists: Any
    _timer: Timer | None = None
    log: list[Sequence[str]] | None = None

    def time(self, on: bool) -> None:
        """Begin or end to time dispatches."""
        if on:
            for handle in {r[0] for r in self._timer.ranges} if self._timer else ():
                self._buffers.pop(handle).destroy()
            self._timer = self._guard(lambda: Timer(self.device, self._keep))
        self._command_lists.timer = self._timer if on else None
        self.log = [] if on else None

    def times(self) -> tuple[list[Range], float]:
        """Where the timestamps lie, and the nanoseconds of a tick."""
        return (self._timer.ranges, self._timer.period) if self._timer else ([], 1.0)

    def _keep(self, buffer: Any) -> int:
        handle = self._id()
        self._buffers[handle] = buffer
        return handle

    def _guard(self, call: Callable[[], R]) -> R:
        raise NotImplementedError

    def _id(self) -> int:
        raise NotImplementedError
