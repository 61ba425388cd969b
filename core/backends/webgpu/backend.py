"""The backend of the webgpu device: buffers on the GPU, ops as recorded dispatches."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.backends import Bytes, Operand
from rushlight.core.backends.coming import Coming
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.webgpu import access, blocks
from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.backends.webgpu.plans import IN_PLACE, plan_of
from rushlight.core.backends.webgpu.plans.map import move, scatter_narrow
from rushlight.core.backends.webgpu.pool import Buffer, Pool
from rushlight.core.backends.webgpu.port import Port
from rushlight.core.backends.webgpu.recorder import Recorder, Slice
from rushlight.core.backends.webgpu.status import Status
from rushlight.core.dtype import DType, int64
from rushlight.core.errors import DeviceError, DeviceLostError


class WebGpuBackend:
    """One device of one adapter, behind a lock: threads may share it."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.lock = threading.RLock()
        self.pool = Pool(port)
        self.recorder = Recorder(port, self.pool)
        self.status = Status(self.recorder, self.pool)

    # Memory.

    def allocate(self, nbytes: int, dtype: DType, write: bool = False) -> Buffer:
        """A buffer for `nbytes` bytes of elements; DeviceMemoryError where there is no room.

        write: the host will write to it by itself, which comes before what waits to be submitted.
        """
        access.check_dtype("webgpu", dtype)
        with self.lock:
            if dtype.kind == "q":
                return blocks.allocate(self, nbytes // dtype.itemsize * dtype.block, dtype)
            return self.pool.take(max(_held(nbytes, dtype), 4), write)

    def upload(self, data: Bytes, dtype: DType) -> Buffer:
        """A buffer that holds `data`."""
        access.check_dtype("to", dtype)
        if dtype is int64:
            wide = data.view(np.int64)
            data = wide.astype(np.int32).view(np.uint8)
            if not np.array_equal(data.view(np.int32), wide):
                far = wide[(wide < -(2**31)) | (wide >= 2**31)][0]
                raise OverflowError(
                    f"to: {far} is beyond the 32 bits that webgpu holds int64 in; keep it on cpu"
                )
        if dtype.kind == "q":
            return blocks.upload(self, data, dtype)
        with self.lock:
            buffer = self.pool.take(max(data.size, 4), write=True)
            self.write(buffer, data)
            return buffer

    def write(self, buffer: Buffer, data: Bytes) -> None:
        """Write `data` over the beginning of a buffer; the last word of it is filled with zeros."""
        with self.lock:
            self.check_alive("write", buffer)
            whole = data.size // 4 * 4
            if whole:
                self.recorder.write(buffer, data[:whole])
            if whole < data.size:
                tail = np.zeros(4, np.uint8)
                tail[: data.size - whole] = data[whole:]
                self.recorder.write(buffer, tail, whole)

    def download(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        """Bytes start to stop of the elements, after all pending work; blocks."""
        if dtype.kind == "q":
            return self._blocks(buffer, start, stop, dtype)
        with self.lock:
            ranges, cut = self._ranges(buffer, start, stop, dtype)
            data = self.status.read(ranges)
        return _wide(data, cut, dtype)

    async def download_async(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        """`download` that waits without blocking."""
        if dtype.kind == "q":
            return await self._blocks_async(buffer, start, stop, dtype)
        return await self.begin(buffer, start, stop, dtype)

    def begin(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Coming[Bytes]:
        """Begin to read bytes start to stop of plain elements, as they are after pending work."""
        with self.lock:
            ranges, cut = self._ranges(buffer, start, stop, dtype)
            pending = self.status.begin(ranges)
        return pending.then(lambda data: _wide(data, cut, dtype))

    def _blocks(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        """Bytes start to stop of quantized blocks as a file has them."""
        self.check_alive("read", buffer)
        found = []
        for first, count in blocks.parts(self, start, stop, dtype):
            with self.lock:
                part = blocks.gather(self, buffer, first, count, dtype)
                found.append(self.status.read(part)[: count * dtype.itemsize])
        return blocks.cut(found, start, stop, dtype)

    async def _blocks_async(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        self.check_alive("read", buffer)
        found = []
        for first, count in blocks.parts(self, start, stop, dtype):
            with self.lock:
                part = blocks.gather(self, buffer, first, count, dtype)
                pending = self.status.read_async(part)
            found.append((await pending)[: count * dtype.itemsize])
        return blocks.cut(found, start, stop, dtype)

    def block_writer(self, numel: int, dtype: DType) -> blocks.BlockWriter:
        """Fills a new buffer of quantized blocks from successive pieces of a file."""
        access.check_dtype("to", dtype)
        return blocks.BlockWriter(self, numel, dtype)

    def emitter(self, op: str) -> Emitter:
        """Records dispatches for `op`; hold the lock meanwhile."""
        return Emitter(op, self.recorder, self.pool, self.status)

    def check_alive(self, name: str, buffer: Buffer) -> None:
        """DeviceLostError for a buffer of a device that was closed."""
        if buffer.pool is not self.pool:
            raise DeviceLostError(
                f"{name}: this tensor was on a device that has been closed or lost since",
                hint="load the model or make the tensor again",
            )

    def _ranges(
        self, buffer: Buffer, start: int, stop: int, dtype: DType
    ) -> tuple[Slice, tuple[int, int]]:
        self.check_alive("read", buffer)
        if dtype is int64:
            start, stop = _held(start, dtype), _held(stop, dtype)
        low, high = start // 4 * 4, -(-stop // 4) * 4
        return Slice(buffer, low, high - low), (start - low, stop - low)

    # The device itself.

    def synchronize(self) -> None:
        """Wait for all pending work; raises what went wrong in it."""
        with self.lock:
            self.recorder.flush()
            self.port.check()
            self.status.check()

    async def synchronize_async(self) -> None:
        """`synchronize` that waits without blocking."""
        with self.lock:
            pending = self.status.read_async(self.status.slice())
        await pending

    def info(self) -> Mapping[str, Any]:
        """The adapter: vendor, device, driver, limits (as WebGPU names them) and features."""
        return {
            **self.port.info,
            "limits": dict(self.port.limits),
            "features": sorted(self.port.features),
        }

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Refuse to hold more than `nbytes` bytes; ValueError for a negative number."""
        if nbytes is not None and nbytes < 0:
            raise ValueError(f"set_memory_budget: {nbytes} bytes; it must not be negative")
        with self.lock:
            self.pool.budget = nbytes

    def close(self) -> None:
        """Destroy the device; its tensors are lost."""
        with self.lock:
            self.port.close()

    # Ops.

    def supports(self, name: str) -> bool:
        """Whether there is a plan for the op `name`."""
        return plan_of(name) is not None

    def run(
        self, name: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
    ) -> None:
        """Record the op `name` into `out`, which may be the first input."""
        plan = plan_of(name)
        if plan is None:
            raise DeviceError(
                f"{name}: webgpu has no kernel for it", hint="move the tensors with .to('cpu')"
            )
        for x in (*inputs, out):
            if x is not None:
                access.check_dtype(name, x.dtype)
        if 0 in out.layout.shape:
            return
        with self.lock:
            for x in (*inputs, out):
                if x is not None:
                    self.check_alive(name, x.buffer)
            self.emit(self.emitter(name), inputs, out, attrs)

    def emit(
        self,
        e: Emitter,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
    ) -> None:
        """Have the emitter's op record its dispatches; hold the lock meanwhile."""
        plan = plan_of(e.op)
        assert plan is not None, e.op
        if 0 in out.layout.shape:
            return
        choices = self.recorder.choices
        choices.asked.clear()
        if e.op in IN_PLACE or not _needs_copy(e.op, inputs, out):
            plan(e, inputs, out, attrs)
        else:
            made = e.temporary(out.layout.shape, out.dtype)
            plan(e, inputs, made, attrs)
            store(e, made, out)
        if choices.asked:
            choices.note(e.op, inputs, out, attrs)


def _held(nbytes: int, dtype: DType) -> int:
    """Bytes on the device for bytes of elements: int64 is held in 32 bits."""
    return nbytes // 2 if dtype is int64 else nbytes


def _wide(data: Bytes, cut: tuple[int, int], dtype: DType) -> Bytes:
    data = data[cut[0] : cut[1]]
    return data.view(np.int32).astype(np.int64).view(np.uint8) if dtype is int64 else data


def _needs_copy(name: str, inputs: Sequence[Operand | None], out: Operand) -> bool:
    """Whether a plan cannot write to `out` itself: it is read too, or lies across words."""
    if out.dtype.kind == "q":
        return False  # only `copy` makes blocks, in a buffer of their own
    narrow = access.per_word(out.dtype) > 1
    aligned = out.layout.is_contiguous and out.layout.offset % access.per_word(out.dtype) == 0
    if name in ELEMENTWISE or name in ("copy", "cast", "full"):
        first, *others = [*inputs, None]
        if any(x is not None and x.buffer is out.buffer for x in others):
            return True
        if first is not None and first.buffer is out.buffer:
            if first.layout != out.layout or first.dtype is not out.dtype:
                return True
        return narrow and not (aligned and not _partial(out))
    shared = any(x is not None and x.buffer is out.buffer for x in inputs)
    return shared or not aligned or (narrow and _partial(out))


def _partial(out: Operand) -> bool:
    """Whether the last word of `out` may hold elements that are not its own."""
    per = access.per_word(out.dtype)
    return out.layout.numel % per != 0 and out.layout.extent[1] * (4 // per) < out.buffer.nbytes


def store(e: Emitter, made: Operand, out: Operand) -> None:
    """Copy a temporary over `out`, whatever its layout."""
    if access.per_word(out.dtype) == 1:
        move(e, made, out)
    else:
        scatter_narrow(e, made, out)
