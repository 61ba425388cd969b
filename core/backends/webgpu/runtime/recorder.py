"""The recorder: dispatches gather in a batch, which a read or its size submits."""

from __future__ import annotations

import struct
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rushlight.core.backends.autotuning import Choices
from rushlight.core.backends.modes import debugging
from rushlight.core.backends.profiling import Label
from rushlight.core.backends.protocol import Bytes
from rushlight.core.backends.webgpu.runtime.pool import Buffer, Pool, Virtual
from rushlight.core.backends.webgpu.runtime.port import SLOT, SPREAD, STRIDE, Port, Range, summary
from rushlight.core.basis.errors import DeviceError
from rushlight.core.basis.graph import Draws

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.compiler.replay import WebGpuExecutable

# A batch is submitted when it has this many dispatches, or touches this many bytes.
MOST_DISPATCHES = 512
MOST_BYTES = 256 << 20
_MOST_GROUPS = 8192
_AXIS = 65535


class Kernel(NamedTuple):
    """A compute shader: its WGSL, and "r" or "w" for each binding of group 0."""

    source: str
    access: str
    label: str


class Slice(NamedTuple):
    """A range of a buffer that a dispatch binds, in bytes; the offset a multiple of 256."""

    buffer: Buffer | Virtual
    offset: int
    nbytes: int


@dataclass(slots=True)
class Dispatch:
    """One run of a kernel in a graph that is being compiled."""

    op: str
    kernel: Kernel
    bindings: tuple[Slice, ...]
    parameters: tuple[int, ...]  # up to SPREAD slots of 64 words
    groups: tuple[int, int, int]
    draw: tuple[Draws, int] | None = None  # generator and words, of which seed and offset come


class Recorder:
    """Gathers dispatches into command lists for one port.

    Not safe by itself: the backend holds a lock.
    """

    def __init__(self, port: Port, pool: Pool) -> None:
        self.port, self.pool = port, pool
        self.choices = Choices()
        self.commands: array[int] = array("I")
        self.uniforms = bytearray()
        self.slots: dict[bytes, int] = {}
        self.ops: list[str] = []
        self.pending_bytes = 0
        self.pipelines: dict[Kernel, int] = {}
        self.groups: OrderedDict[tuple[str, tuple[Range, ...]], int] = OrderedDict()
        self.of_buffer: dict[int, set[tuple[str, tuple[Range, ...]]]] = {}
        self.dispatches = self.submits = 0
        self._constants: dict[str, Slice] = {}
        self.freed = 0  # counts destroyed bind groups
        self.observer: list[tuple[str, str]] | None = None  # (op, kernel label), for tests
        self.labels: list[Label] | None = None  # of the dispatches since, for a profile
        self.tape: list[Dispatch] | None = None  # where dispatches go while a graph is compiled
        # Command lists without references; the garbage collector adds them.
        self.retired: deque[tuple[int, list[int]]] = deque()

    def dispatch(
        self,
        op: str,
        kernel: Kernel,
        bindings: Sequence[Slice],
        parameters: Sequence[int],
        groups: tuple[int, int, int],
    ) -> None:
        """Append one dispatch. parameters: up to 64 words; groups: workgroups per axis."""
        if 0 in groups:
            return
        if max(groups) > _AXIS:
            raise DeviceError(f"{op}: a grid of {groups} workgroups; an axis holds {_AXIS}")
        if self.tape is not None:
            label = Label.of(op, kernel.label, groups)
            self.tape.append(Dispatch(label, kernel, tuple(bindings), tuple(parameters), groups))
            return
        try:
            pipeline = self.pipeline(op, kernel)
            group = self.group(kernel.access, bindings)
        except DeviceError as error:
            raise error.during(op) from None
        words = struct.pack(f"<{len(parameters)}I", *parameters)
        slot = self.slots.get(words)
        if slot is None:
            slot = len(self.uniforms)
            self.uniforms += words.ljust(SLOT, b"\0")
            self.slots[words] = slot
        self.commands.extend((pipeline, group, slot, *groups))
        if self.labels is not None:
            op = Label.of(op, kernel.label, groups)
            self.labels.append(op)
        self.ops.append(op)
        self.dispatches += 1
        if self.observer is not None:
            self.observer.append((op, kernel.label))
        for b in bindings:
            if b.buffer.handle not in self.pool.pending:
                self.pool.pending.add(b.buffer.handle)
                self.pending_bytes += b.buffer.nbytes
        full = len(self.ops) >= MOST_DISPATCHES or self.pending_bytes >= MOST_BYTES
        if full or debugging[0]:
            self.flush()

    def pipeline(self, op: str, kernel: Kernel) -> int:
        """The pipeline of a kernel; compiled when it is first asked for."""
        pipeline = self.pipelines.get(kernel)
        if pipeline is None:
            label = f"{op}: {kernel.label}"
            pipeline = self.port.pipeline(kernel.source, kernel.access, label)
            self.pipelines[kernel] = pipeline
        return pipeline

    def replay(self, executable: WebGpuExecutable) -> None:
        """Run a retained command list after the waiting dispatches (call `flush` before)."""
        self.dispatches += len(executable.ops)
        self.submits += 1
        if self.observer is not None:
            self.observer += executable.labels
        what: Sequence[str] = executable.ops
        try:
            if not debugging[0]:
                self.port.replay(executable.number)
                return
            for i, op in enumerate(executable.ops):
                what = [op]
                words = executable.words[i * STRIDE : (i + 1) * STRIDE]
                slot, words[2] = words[2], 0
                parameters = executable.uniforms[slot : slot + SPREAD * SLOT]
                self.port.submit(words, bytes(parameters), what)
                self.port.check()
        except DeviceError as error:
            raise error.during(summary(what)) from None

    def group(self, access: str, bindings: Sequence[Slice]) -> int:
        """The bind group of some slices."""
        ranges = tuple((b.buffer.handle, b.offset, b.nbytes) for b in bindings)
        key = (access, ranges)
        group = self.groups.get(key)
        if group is None:
            group = self.port.bind_group(access, ranges)
            self.groups[key] = group
            for handle, _, _ in ranges:
                self.of_buffer.setdefault(handle, set()).add(key)
        else:
            self.groups.move_to_end(key)
        return group

    def flush(self) -> None:
        """Submit the waiting dispatches; freed memory returns to the pool."""
        if self.ops:
            commands, uniforms, ops = self.commands, bytes(self.uniforms), self.ops
            self.commands, self.uniforms, self.slots, self.ops = array("I"), bytearray(), {}, []
            self.pool.pending.clear()
            self.pending_bytes = 0
            self.submits += 1
            try:
                self.port.submit(commands, uniforms, ops)
                if debugging[0]:
                    self.port.check()
            except DeviceError as error:
                raise error.during(summary(ops)) from None
        while self.retired:
            number, groups = self.retired.popleft()
            if number:
                self.port.release(number)
            for group in groups:
                self.port.free_group(group)
        self.pool.trim()
        for handle in self.pool.forget:
            for key in self.of_buffer.pop(handle, ()):
                self._drop(key, handle)
        self.pool.forget.clear()
        while len(self.groups) > _MOST_GROUPS:
            key = next(iter(self.groups))
            for handle, _, _ in key[1]:
                self.of_buffer.get(handle, set()).discard(key)
            self.port.free_group(self.groups.pop(key))
            self.freed += 1

    def _drop(self, key: tuple[str, tuple[Range, ...]], gone: int) -> None:
        group = self.groups.pop(key, None)
        if group is not None:
            self.port.free_group(group)
            self.freed += 1
        for handle, _, _ in key[1]:
            if handle != gone:
                self.of_buffer.get(handle, set()).discard(key)

    def write(self, buffer: Buffer, data: Bytes, offset: int = 0) -> None:
        """Write to a buffer after the waiting dispatches; WebGPU alone would write before them."""
        if buffer.handle in self.pool.pending:
            self.flush()
        self.port.write(buffer.handle, offset, data)

    def constant(self, name: str, data: Bytes) -> Slice:
        """A buffer that holds `data` for as long as the device is there, by its name."""
        if name not in self._constants:
            buffer = self.pool.take(data.size, write=True)
            self.port.write(buffer.handle, 0, data)
            self._constants[name] = Slice(buffer, 0, data.size)
        return self._constants[name]

    def read(self, ranges: Sequence[Slice]) -> list[Bytes]:
        """Contents of some ranges after the waiting dispatches."""
        if self.ops or self.retired or self.pool.dead or self.pool.forget:
            self.flush()
        return self.port.read([(r.buffer.handle, r.offset, r.nbytes) for r in ranges])
