"""The backend of the webgpu device: buffers on the GPU, ops as recorded dispatches."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.passes.reusing import SharedBuffers
from rushlight.core.backends.protocol import Bytes, Executable, Operand
from rushlight.core.backends.readback import Readback
from rushlight.core.backends.webgpu.codegen import access, blocks
from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.backends.webgpu.lowering import IN_PLACE, lowering_of
from rushlight.core.backends.webgpu.lowering.map import move, scatter_narrow
from rushlight.core.backends.webgpu.runtime.pool import Buffer, Pool
from rushlight.core.backends.webgpu.runtime.port import Port
from rushlight.core.backends.webgpu.runtime.recorder import Recorder, Slice
from rushlight.core.backends.webgpu.runtime.status import Status
from rushlight.core.basis.dtype import DType, int64
from rushlight.core.basis.errors import DeviceError, DeviceLostError
from rushlight.core.basis.graph import Graph

if TYPE_CHECKING:
    from rushlight.core.backends.autotuning import Tuner
    from rushlight.core.backends.profiling import Probe
    from rushlight.core.backends.webgpu.compiler.checking import KernelChecks
    from rushlight.core.backends.webgpu.runtime.streaming import WebGpuStream


# Kernels number elements in 32 bits. What lies in memory is bounded by bindings, what `expand`
# repeats is not.
_MOST_REPEATED = 1 << 31
# Bytes from which what the host uploads is taken for a weight: smaller inputs differ in size.
_LARGE = 1 << 16


class WebGpuBackend:
    """One device of one adapter, behind a lock: threads may share it."""

    asynchronous = True
    min_element_width = 4
    weights_layout: Literal["gguf", "planes"] = "planes"

    def __init__(self, port: Port) -> None:
        self.port = port
        self.lock = threading.RLock()
        self.pool = Pool(port)
        self.recorder = Recorder(port, self.pool)
        self.status = Status(self.recorder, self.pool)
        self.checks: KernelChecks | None = None

    # Memory.

    def allocate(self, nbytes: int, dtype: DType, write: bool = False) -> Buffer:
        """A buffer for `nbytes` bytes of elements; DeviceMemoryError if there is no memory.

        write: the host will write to it, which happens before all dispatches not yet submitted.
        """
        access.check_dtype("webgpu", dtype)
        with self.lock:
            if dtype.kind == "q":
                return blocks.allocate(self, nbytes // dtype.itemsize * dtype.block, dtype)
            # A stream writes weights, which stay.
            return self.pool.take(max(_held(nbytes, dtype), 4), write, lasting=write)

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
            buffer = self.pool.take(max(data.size, 4), write=True, lasting=data.size >= _LARGE)
            self.write(buffer, data)
            return buffer

    def write(self, buffer: Buffer, data: Bytes) -> None:
        """Write `data` to the start of a buffer; its last word is padded with zeros."""
        with self.lock:
            self.check_alive("write", buffer)
            full_words = data.size // 4 * 4
            if full_words:
                self.recorder.write(buffer, data[:full_words])
            if full_words < data.size:
                tail = np.zeros(4, np.uint8)
                tail[: data.size - full_words] = data[full_words:]
                self.recorder.write(buffer, tail, full_words)

    def download(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        """Bytes start to stop of the elements, after all pending work; blocks."""
        if dtype.kind == "q":
            return self._blocks(buffer, start, stop, dtype)
        with self.lock:
            ranges, cut = self._ranges(buffer, start, stop, dtype)
            data = self.status.read(ranges)
        return _wide(data, cut, dtype)

    async def download_async(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        """`download` without blocking."""
        if dtype.kind == "q":
            return await self._blocks_async(buffer, start, stop, dtype)
        return await self.begin(buffer, start, stop, dtype)

    def begin(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Readback[Bytes]:
        """Begin to read bytes start to stop of plain elements, as they are after pending work."""
        with self.lock:
            ranges, cut = self._ranges(buffer, start, stop, dtype)
            pending = self.status.begin(ranges)
        return pending.then(lambda data: _wide(data, cut, dtype))

    def _blocks(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        """Bytes start to stop of quantized blocks, in the file's layout."""
        self.check_alive("read", buffer)
        chunks = []
        for first, count in blocks.parts(self, start, stop, dtype):
            with self.lock:
                gathered = blocks.gather(self, buffer, first, count, dtype)
                chunks.append(self.status.read(gathered)[: count * dtype.itemsize])
        return blocks.cut(chunks, start, stop, dtype)

    async def _blocks_async(self, buffer: Buffer, start: int, stop: int, dtype: DType) -> Bytes:
        self.check_alive("read", buffer)
        chunks = []
        for first, count in blocks.parts(self, start, stop, dtype):
            with self.lock:
                gathered = blocks.gather(self, buffer, first, count, dtype)
                pending = self.status.read_async(gathered)
            chunks.append((await pending)[: count * dtype.itemsize])
        return blocks.cut(chunks, start, stop, dtype)

    def block_writer(self, numel: int, dtype: DType) -> blocks.BlockWriter:
        """Fills a new buffer of quantized blocks from successive pieces of a file."""
        access.check_dtype("to", dtype)
        return blocks.BlockWriter(self, numel, dtype)

    def emitter(self, op: str) -> Emitter:
        """An Emitter for `op`; the caller holds the lock."""
        return Emitter(op, self.recorder, self.pool, self.status)

    def check_alive(self, name: str, buffer: Buffer) -> None:
        """DeviceLostError for a buffer of a device that was closed."""
        if buffer.pool is not self.pool:
            raise DeviceLostError(
                f"{name}: this tensor was on a device that was closed or lost",
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
        """Wait for all pending work; raises its errors."""
        with self.lock:
            self.recorder.flush()
            self.port.check()
            self.status.check()

    async def synchronize_async(self) -> None:
        """`synchronize` without blocking."""
        with self.lock:
            pending = self.status.read_async(self.status.slice())
        await pending

    def info(self) -> Mapping[str, Any]:
        """The adapter: vendor, device, driver, limits (by WebGPU's names) and features."""
        return {
            **self.port.info,
            "limits": dict(self.port.limits),
            "features": sorted(self.port.features),
        }

    def probe(self, began: float) -> Probe:
        """A probe that times each dispatch, by timestamps if the adapter has them."""
        from rushlight.core.backends.webgpu.probe import Probe

        return Probe(self, began)

    def tuner(self) -> Tuner:
        """The choices among kernels, and the file or storage in which they are saved."""
        from rushlight.core.backends.webgpu.compiler.autotune import WebGpuTuner

        return WebGpuTuner(self)

    def weight_stream(self) -> WebGpuStream:
        """The stream of downloaded bytes into buffers of the GPU, in a tab."""
        from rushlight.core.backends.webgpu.runtime.streaming import WebGpuStream

        return WebGpuStream(self)

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Refuse to hold more than `nbytes` bytes; ValueError for a negative number."""
        if nbytes is not None and nbytes < 0:
            raise ValueError(f"set_memory_budget: {nbytes} bytes; it must not be negative")
        with self.lock:
            self.pool.budget = nbytes

    def memory_left(self) -> int | None:
        """Bytes that may still be taken under the budget; None without one."""
        with self.lock:
            self.pool.collect()
            budget = self.pool.budget
            return None if budget is None else max(0, budget - self.pool.used)

    def trim(self) -> None:
        """Free the memory that is kept for reuse, unless the device is lost."""
        if self.port.lost is None:
            with self.lock:
                self.recorder.flush()
                self.pool.trim(0)
                self.recorder.flush()  # drops the bind groups of destroyed buffers

    def close(self) -> None:
        """Destroy the device; its tensors are lost."""
        with self.lock:
            self.port.close()

    # Ops.

    def linear_as(self, mode: str, dtype: DType) -> str:
        """The same, or a more exact one where the adapter or the type lacks something."""
        from rushlight.core.backends.webgpu.lowering.products.rounded import mode_for

        return mode_for(mode, dtype, self.port.features)

    def supports(self, name: str) -> bool:
        """Whether there is a lowering for the op `name`."""
        return lowering_of(name) is not None

    def run(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
        memo: Any = None,
    ) -> None:
        """Record the op `name` into `out`, which may be the first input."""
        lowering = lowering_of(name)
        if lowering is None:
            raise DeviceError(
                f"{name}: webgpu does not support this op", hint="move the tensors with .to('cpu')"
            )
        for x in (*inputs, out):
            if x is not None:
                access.check_dtype(name, x.dtype)
        if 0 in out.layout.shape:
            return
        for x in inputs:
            if x is not None and x.layout.numel > _MOST_REPEATED and x.layout.repeats:
                raise DeviceError(
                    f"{name}: an expanded operand of shape {x.layout.shape} has "
                    f"{x.layout.numel} elements, webgpu numbers {_MOST_REPEATED}",
                    hint="split the tensor along a dim, or compute on cpu",
                )
        with self.lock:
            for x in (*inputs, out):
                if x is not None:
                    self.check_alive(name, x.buffer)
            self.emit(self.emitter(name), inputs, out, attrs)

    def compile(self, graph: Graph, pool: SharedBuffers) -> Executable:
        """The graph as one command list, which "fuse" and "merge" shorten."""
        from rushlight.core.backends.webgpu.compiler.replay import WebGpuExecutable

        return WebGpuExecutable(self, graph, pool)

    def emit(
        self,
        e: Emitter,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
    ) -> None:
        """Record the dispatches of the emitter's op; the caller holds the lock."""
        lowering = lowering_of(e.op)
        assert lowering is not None, e.op
        if 0 in out.layout.shape:
            return
        choices = self.recorder.choices
        choices.asked.clear()
        if e.op in IN_PLACE or not _needs_copy(e.op, inputs, out):
            lowering(e, inputs, out, attrs)
        else:
            temporary = e.temporary(out.layout.shape, out.dtype)
            lowering(e, inputs, temporary, attrs)
            store(e, temporary, out)
        if choices.asked:
            new = list(choices.asked)
            choices.note(e.op, inputs, out, attrs)
            own = e.recorder is self.recorder and e.op not in IN_PLACE
            if own and self.checks is not None and self.checks.check(new):
                self.emit(e, inputs, out, attrs)  # by the kernel that is right


def _held(nbytes: int, dtype: DType) -> int:
    """Bytes on the device for `nbytes` bytes of elements: int64 is held in 32 bits."""
    return nbytes // 2 if dtype is int64 else nbytes


def _wide(data: Bytes, cut: tuple[int, int], dtype: DType) -> Bytes:
    data = data[cut[0] : cut[1]]
    return data.view(np.int32).astype(np.int64).view(np.uint8) if dtype is int64 else data


def _needs_copy(name: str, inputs: Sequence[Operand | None], out: Operand) -> bool:
    """Whether a lowering cannot write to `out` directly: it is also an input, or not aligned."""
    if out.dtype.kind == "q":
        return False  # only `copy` makes blocks, in a new buffer
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
    """Whether the last word of `out` may hold elements of other tensors."""
    per = access.per_word(out.dtype)
    return out.layout.numel % per != 0 and out.layout.extent[1] * (4 // per) < out.buffer.nbytes


def store(e: Emitter, source: Operand, out: Operand) -> None:
    """Copy a temporary to `out`, of any layout."""
    if access.per_word(out.dtype) == 1:
        move(e, source, out)
    else:
        scatter_narrow(e, source, out)
