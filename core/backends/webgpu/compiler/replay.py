"""The webgpu device's Executable: memory by lifetime, and one command list that is replayed.

The lowerings of the steps record their dispatches on a tape, over virtual memory for slots and
temporaries. Then the virtual memory gets buffers, and pipelines, bind groups and parameters become
a command list of the port, which a replay runs with one call.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.backends.modes import linear_mode
from rushlight.core.backends.passes.folding import fold
from rushlight.core.backends.passes.last_states import write_state_in_place
from rushlight.core.backends.passes.reusing import SharedBuffers, reuse
from rushlight.core.backends.profiling import cost, credit
from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access, blocks
from rushlight.core.backends.webgpu.compiler.fuse import fuse
from rushlight.core.backends.webgpu.compiler.merge import merge, most_joined
from rushlight.core.backends.webgpu.emit import ALIGN, Emitter
from rushlight.core.backends.webgpu.lowering.map import move
from rushlight.core.backends.webgpu.lowering.random import STATE_AT, STATEFUL
from rushlight.core.backends.webgpu.runtime.pool import Buffer, Virtual, Virtuals
from rushlight.core.backends.webgpu.runtime.port import SLOT, STRIDE
from rushlight.core.backends.webgpu.runtime.recorder import Dispatch, Slice
from rushlight.core.basis.dtype import DType, uint32
from rushlight.core.basis.graph import Draws, Graph, Slot, Step, TensorView
from rushlight.core.basis.layout import Layout

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend


# Kernels may read so many bytes at once; buffers, and where one is bound from, are multiples of it.
_QUAD = 16


class _Moving(NamedTuple):
    """A dispatch whose buffers change in each run."""

    at: int
    access: str
    bindings: tuple[Slice, ...]


class WebGpuExecutable:
    """The dispatches of one graph; see `Executable` of the protocol."""

    in_order = False  # passes move steps over writes to memory that they know apart

    def __init__(self, backend: WebGpuBackend, graph: Graph, pool: SharedBuffers) -> None:
        self.backend, self.variable, self.slots = backend, graph.variable, graph.slots
        self.nbytes, self.number = 0, 0  # the port's; none without dispatches
        self.own_groups: list[int] = []
        self.shared: dict[int, Buffer] = {}
        self.bound: dict[int, tuple[Buffer, int]] = {}  # by handle: buffer, and byte it begins at
        self.back: list[tuple[TensorView, TensorView]] = []
        self.dtypes: dict[Slot, DType] = {}
        self.reach: dict[Slot, int] = {}  # bytes of an argument that the steps reach
        self.turn = backend.recorder.choices.turn
        with backend.lock:
            self._build(graph, pool)

    def __del__(self) -> None:
        if self.own_groups or self.number:  # the garbage collector may run amid anything
            self.backend.recorder.retired.append((self.number, self.own_groups))

    # Making it.

    def _build(self, graph: Graph, pool: SharedBuffers) -> None:
        steps, results, passes = list(graph.steps), graph.results, graph.passes
        for step in steps:
            self.dtypes.setdefault(step.out.storage, step.out.dtype)
        if "fold" in passes:
            steps = fold(steps, results, self._fold)
        if "fuse" in passes:
            keep = {s for s in self.slots if s.kind != "temp"} | results
            steps = fuse(steps, keep, self.backend.emitter("fuse"))
            # A kernel has no binding left for another state.
            steps = write_state_in_place(steps, keep, own_target=True)
        self._memory(steps, results)
        noting = self.backend.status.noting
        tape = self._tape(steps)
        if "merge" in passes:
            # An argument may also be a tensor from outside.
            argument_handles = {s.buffer.handle for s in self.slots if s.kind == "arg" and s.buffer}
            port = self.backend.port
            tape = merge(tape, port.limits, argument_handles, most_joined(port.info))
        self.notes = self.backend.status.noting - noting
        self.backend.status.noting = noting
        real = self._place(tape, pool if "reuse" in passes else None)
        self._retain(tape, real)

    def _fold(self, step: Step) -> None:
        self._own(step.out.storage)
        self.backend.run(step.name, step.inputs, step.out, step.attrs)

    def _own(self, slot: Slot) -> None:
        slot.buffer = self.backend.allocate(slot.nbytes, self.dtypes[slot])
        self.nbytes += slot.buffer.nbytes

    def _memory(self, steps: list[Step], results: frozenset[Slot]) -> None:
        """Buffers for kept results; virtual memory for the rest."""
        buffers = {slot: slot.buffer for slot in self.slots if slot.kind == "arg"}
        for slot in buffers:
            slot.buffer = None
        for step in steps:
            for x in (*step.inputs, step.out):
                if x is None or (slot := x.storage) not in buffers:
                    continue
                slot.buffer = slot.buffer or Virtual(_QUAD)
                if x.dtype.kind == "q":  # another argument's planes begin at the same places
                    buffer = buffers[slot]
                    slot.buffer.nbytes, slot.buffer.planes = buffer.nbytes, buffer.planes
                else:
                    size = -(-x.layout.extent[1] * access.width(x.dtype) // 4) * 4
                    self.reach[slot] = max(self.reach.get(slot, 4), size)
                    slot.buffer.nbytes = -(-self.reach[slot] // _QUAD) * _QUAD
        for slot, dtype in self.dtypes.items():
            if slot.kind != "temp" or slot.buffer is not None:
                continue
            if slot in results and slot not in self.variable:
                self._own(slot)
            elif dtype.kind == "q":
                slot.buffer = Virtual(0)
                slot.buffer.nbytes, slot.buffer.planes = blocks.places(
                    slot.nbytes // dtype.itemsize * dtype.block, dtype
                )
            else:
                # A driver may read a quad that is only partly bound as zeros.
                slot.buffer = Virtual(-(-max(_held(slot.nbytes, dtype), 1) // _QUAD) * _QUAD)

    def _tape(self, steps: list[Step]) -> list[Dispatch]:
        backend, recorder = self.backend, self.backend.recorder
        tape: list[Dispatch] = []
        recorder.tape = tape
        pool: Any = Virtuals()
        try:
            for step in steps:
                first = len(tape)
                e = Emitter(step.name, recorder, pool, backend.status)
                with linear_mode(step.activation_precision):
                    backend.emit(e, step.inputs, step.out, step.attrs)
                price = cost(step.name, step.inputs, step.out, step.attrs)
                credit([d.op for d in tape[first:]], price)
                for d in tape[first:] if step.draw else ():
                    if d.kernel.label in STATEFUL:
                        d.draw = step.draw
        finally:
            recorder.tape = None
        return tape

    def _place(self, tape: list[Dispatch], pool: SharedBuffers | None) -> dict[int, Buffer]:
        """Buffers for all memory that is not bound in each run; several values share one in turn.

        The result is by handle. Without a pool each value has its own buffer.
        """
        moving = {s.buffer.handle for s in self.variable if s.buffer is not None}
        virtual = {
            s.buffer.handle: s.buffer.nbytes
            for d in tape
            for s in d.bindings
            if isinstance(s.buffer, Virtual) and s.buffer.handle not in moving
        }
        if pool is None:
            real = {handle: self.backend.pool.take(n) for handle, n in virtual.items()}
            self.nbytes += sum(b.nbytes for b in real.values())
            return real

        def make(size: int) -> tuple[int, int, Buffer]:
            buffer = self.backend.pool.take(size)
            pool.add(buffer)
            return buffer.nbytes, buffer.handle, buffer

        here = [b for b in pool.buffers() if b.pool is self.backend.pool]
        uses = [[s.buffer.handle for s in d.bindings] for d in tape]
        real = reuse(uses, virtual, ((b.nbytes, b.handle, b) for b in here), make)
        self.shared = {id(b): b for b in real.values()}
        return real

    def _retain(self, tape: list[Dispatch], real: dict[int, Buffer]) -> None:
        recorder, port = self.backend.recorder, self.backend.port
        self.ops = [d.op for d in tape]
        self.labels = [(d.op, d.kernel.label) for d in tape]
        self.words, uniforms = array("I"), bytearray()
        self.moving: list[_Moving] = []
        self.patched: Any = None
        self.draws: dict[int, tuple[Draws, int, list[int]]] = {}
        self.held = list(real.values())
        slots: dict[bytes, int] = {}
        groups: dict[Any, int] = {}
        for i, d in enumerate(tape):
            data = struct.pack(f"<{len(d.parameters)}I", *d.parameters)
            slot = None if d.draw else slots.get(data)
            if slot is None:
                slot = len(uniforms)
                uniforms += data.ljust(-(-len(data) // SLOT) * SLOT or SLOT, b"\0")
                if d.draw is None:
                    slots[data] = slot
                else:
                    self.draws.setdefault(id(d.draw), (*d.draw, []))[2].append(slot + 4 * STATE_AT)
            bindings = tuple(
                s._replace(buffer=real.get(s.buffer.handle, s.buffer)) for s in d.bindings
            )
            group = 0
            if any(isinstance(s.buffer, Virtual) for s in bindings):
                self.moving.append(_Moving(i, d.kernel.access, bindings))
            else:
                ranges = tuple((s.buffer.handle, s.offset, s.nbytes) for s in bindings)
                group = groups.get((d.kernel.access, ranges), 0)
                if not group:
                    group = port.bind_group(d.kernel.access, ranges)
                    groups[d.kernel.access, ranges] = group
                    self.own_groups.append(group)
            self.words.extend((recorder.pipeline(d.op, d.kernel), group, slot, *d.groups))
        self.uniforms = uniforms
        if tape:
            self.number = port.retain(self.words, bytes(uniforms), self.ops)
        self.nbytes += len(uniforms)

    # Running it.

    @property
    def alive(self) -> bool:
        """Whether its device is open and its kernels are still those of the tuning table."""
        return self.backend.port.lost is None and self.backend.recorder.choices.turn == self.turn

    def bind(self, slot: Slot, argument: Operand) -> None:
        """Bind an argument's slot to a tensor's memory, or to a copy if that cannot be bound."""
        virtual, buffer = slot.buffer, argument.buffer
        if virtual is None:  # no step uses it
            return
        self.backend.check_alive("jit", buffer)
        if argument.dtype.kind == "q":
            self.bound[virtual.handle] = buffer.whole, buffer.base
            return
        per = access.per_word(argument.dtype)
        start = argument.layout.offset // per * per * access.width(argument.dtype)
        if start + self.reach[slot] > buffer.nbytes:  # there is nothing of it
            start = 0
        if start % ALIGN == 0:
            self.bound[virtual.handle] = buffer, start
            return
        count = self.reach[slot] // 4
        with self.backend.lock:
            copy = self.backend.pool.take(virtual.nbytes)
            original = TensorView(buffer, Layout((count,), (1,), start // 4), uint32)
            copied = TensorView(copy, Layout.contiguous((count,)), uint32)
            move(self.backend.emitter("jit"), original, copied)
        self.bound[virtual.handle] = copy, 0
        if slot.writes:
            self.back.append((copied, original))

    def fresh(self, slot: Slot) -> Any:
        """A new buffer for a result."""
        buffer = self.backend.allocate(slot.nbytes, self.dtypes[slot])
        self.bound[slot.buffer.handle] = buffer, 0
        return buffer

    def run(self) -> None:
        """Run the command list once."""
        backend, recorder = self.backend, self.backend.recorder
        with backend.lock:
            recorder.flush()
            # The same memory as in the last run keeps its bind groups, as long as these exist.
            bound = {v: (b.handle, offset) for v, (b, offset) in self.bound.items()}
            now = recorder.freed, bound
            for dispatch, kinds, bindings in self.moving if now != self.patched else ():
                group = recorder.group(kinds, [self._bound(s) for s in bindings])
                if group != self.words[STRIDE * dispatch + 1]:
                    self.words[STRIDE * dispatch + 1] = group
                    backend.port.patch(self.number, dispatch, group)
            self.patched = now
            for generator, words, places in self.draws.values():
                state = struct.pack("<2Q", *generator.reserve(words))
                for place in places:
                    self.uniforms[place : place + len(state)] = state
                    backend.port.patch_uniforms(self.number, place, state)
            backend.status.noting += self.notes
            if self.number:
                recorder.replay(self)
            for copied, original in self.back:
                move(backend.emitter("jit"), copied, original)

    def _bound(self, s: Slice) -> Slice:
        bound = self.bound.get(s.buffer.handle)
        return s if bound is None else Slice(bound[0], bound[1] + s.offset, s.nbytes)

    def vacate(self) -> None:
        """Release the buffers that were bound for a run."""
        self.bound.clear()
        self.back.clear()


def _held(nbytes: int, dtype: DType) -> int:
    """Bytes on the device for bytes of elements, in whole words."""
    return -(-nbytes // dtype.itemsize * access.width(dtype) // 4) * 4
