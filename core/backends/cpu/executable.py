"""The cpu device's Executable: buffers for a graph, and an ordered list of bound calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import profiling
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.backends.cpu.fuse_elementwise import fuse_elementwise
from rushlight.core.backends.cpu.fuse_into_conv import fuse_into_conv
from rushlight.core.backends.cpu.prepacked import PackedWeight, Watch, constant_steps, prepack
from rushlight.core.backends.modes import get_linear_mode, linear_mode
from rushlight.core.backends.passes.folding import fold
from rushlight.core.backends.passes.last_states import write_state_in_place
from rushlight.core.backends.passes.reusing import SharedBuffers, reuse
from rushlight.core.backends.protocol import Operand
from rushlight.core.basis.graph import Graph, Slot, Step

if TYPE_CHECKING:
    from rushlight.core.backends.cpu.backend import CpuBackend


class CpuExecutable:
    """A graph as an ordered list of calls bound to buffers; see `Executable` of the protocol."""

    alive = True

    def __init__(self, backend: CpuBackend, graph: Graph, pool: SharedBuffers) -> None:
        self.backend = backend
        self.nbytes = 0
        self.shared: dict[int, Any] = {}
        self.variable = graph.variable
        self.messages = 0
        self.slots = graph.slots  # keeps the buffers alive, as messages hold addresses only
        for slot in graph.variable:
            vacate(slot)
        for slot in graph.slots:
            if slot.kind == "outer":
                storage = slot.ref()
                slot.address = 0 if storage is None else storage.address
            elif slot.kind == "const":
                _place(slot, slot.buffer)
        steps: Sequence[Step] = graph.steps
        if "fold" in graph.passes:
            steps = fold(steps, graph.results, self._fold)
        if "fuse" in graph.passes:
            steps = fuse_into_conv(steps, graph.results)
        first, self.watch = constant_steps(steps if "fold" in graph.passes else [], graph.results)
        for step in first:
            self._own(step.out.storage)
        apart = {id(step) for step in first}
        steps = [step for step in steps if id(step) not in apart]
        if "fuse" in graph.passes:
            steps = fuse_elementwise(steps, graph.results)
            # A module without room for the one has none for the other.
            if simd.library is not None and "conv2d_tail" in simd.library.numbers:
                steps = write_state_in_place(steps, graph.results)
        # Draws depend on no step, so they come first and split no message.
        steps = [s for s in steps if s.draw] + [s for s in steps if not s.draw]
        self._buffers(steps, graph, pool if "reuse" in graph.passes else None)
        self.call_steps: list[list[Step]] = []  # the steps of each call, for profiles
        self.packed: dict[PackedWeight, None] = {}
        self.first = self._bind(first)
        self.call_steps, self.messages = [], 0
        self.calls = self._bind(steps)
        refs = [ref for weight in self.packed for ref in weight.watch.refs]
        self.whole = Watch([x for ref in (*refs, *self.watch.refs) if (x := ref()) is not None])
        self.in_order = not self.first and not self.packed  # these read before any step writes

    def bind(self, slot: Slot, argument: Operand) -> None:
        """Bind an argument's slot to a tensor's memory. ValueError if it must be writable."""
        storage, layout = argument.storage, argument.layout
        buffer = storage.buffer
        if slot.writes and not buffer.flags.writeable:
            raise ValueError(
                f"jit: an argument of shape {layout.shape} is written to, but is read-only"
            )
        start = argument.dtype.nbytes(layout.offset) if layout.offset else 0
        slot.buffer = buffer[start:] if start else buffer
        slot.address = storage.address + start

    def fresh(self, slot: Slot) -> Any:
        """A new buffer for a result."""
        _place(slot, np.empty(slot.nbytes, np.uint8))
        return slot.buffer

    def vacate(self) -> None:
        """Release the buffers that were bound for a run."""
        for slot in self.variable:
            vacate(slot)

    def run(self) -> None:
        """Run all calls once."""
        # Most often nothing changed, which one look tells.
        if not self.in_order and (
            (now := self.whole.versions()) is None or now != self.whole.computed_at
        ):
            for weight in self.packed:
                weight.watch.recompute([weight.pack])
            if self.first:
                with np.errstate(all="ignore"):
                    self.watch.recompute(self.first)
            self.whole.computed_at = now
        if profiling.watching:
            profiling.watching[-1](self.calls, self.call_steps)
            return
        if self.messages == len(self.calls):
            for call in self.calls:
                call()
            return
        with np.errstate(all="ignore"):
            for call in self.calls:
                call()

    def _fold(self, step: Step) -> None:
        self._own(step.out.storage)
        self.backend.run(step.name, step.inputs, step.out, step.attrs)

    def _buffers(self, steps: Sequence[Step], graph: Graph, pool: SharedBuffers | None) -> None:
        """Memory for the slots that steps write; several slots share a buffer in turn."""
        wanted = {
            slot: slot.nbytes
            for slot in (step.out.storage for step in steps)
            if slot.kind == "temp" and slot.buffer is None and slot not in self.variable
        }
        for slot in list(wanted):
            if pool is None or slot in graph.results:
                self._own(slot)
                del wanted[slot]
        if pool is None:
            return

        def make(size: int) -> tuple[int, int, Any]:
            new = np.empty(size, np.uint8)
            pool.add(new)
            return size, address(new), new

        uses = [[x.storage for x in (*s.inputs, s.out) if x is not None] for s in steps]
        pooled = ((b.nbytes, address(b), b) for b in pool.buffers())
        for slot, buffer in reuse(uses, wanted, pooled, make).items():
            _place(slot, buffer)
            self.shared[slot.address] = buffer

    def _own(self, slot: Slot) -> None:
        _place(slot, np.empty(slot.nbytes, np.uint8))
        self.nbytes += slot.nbytes

    def _bind(self, steps: Sequence[Step]) -> list[Callable[[], None]]:
        """The calls of steps; neighbouring steps with a C kernel are one message."""
        calls: list[Callable[[], None]] = []
        records: list[Any] = []
        sent: list[Step] = []
        backend, precision = self.backend, get_linear_mode()
        for step in steps:
            if step.draw:
                calls.append(partial(self._draw, step))
                self.call_steps.append([step])
                continue
            other = step.activation_precision != precision
            with linear_mode(step.activation_precision) if other else nullcontext():
                record = lowering.record(step.name, step.inputs, step.out, step.attrs)
            if record is not None:
                record, weight = prepack(step, record)
                if weight is not None:
                    self.packed[weight] = None
                records.append(record)
                sent.append(step)
                continue
            self._send(records, sent, calls)
            records, sent = [], []
            operands = (*step.inputs, step.out)
            moves = any(x is not None and x.storage in self.variable for x in operands)
            run: Any = partial(partial, backend.run) if moves else backend.bind
            calls.append(run(step.name, step.inputs, step.out, step.attrs))
            self.call_steps.append([step])
        self._send(records, sent, calls)
        return calls

    def _send(self, records: list[Any], steps: list[Step], calls: list[Any]) -> None:
        if not records:
            return
        assert simd.library is not None
        words, slots = simd.library.message(records)
        explain = partial(self._explain, steps)
        send = partial(simd.library.run, words, [step.name for step in steps], explain)

        def run() -> None:
            try:
                send()
            except simd.Refused as refused:
                self._resume(records, steps, refused.place)

        moving = [(4 + 2 * i, s) for i, s in enumerate(slots) if s in self.variable]

        def call() -> None:
            for word, slot in moving:
                words[word], words[word + 1] = slot.address, slot.buffer.nbytes
            run()

        self.nbytes += 8 * len(words)
        self.messages += 1
        self.call_steps.append(steps)
        calls.append(call if moving else run)

    def _resume(self, records: list[Any], steps: Sequence[Step], place: int) -> None:
        """Run the step `place`, which no C kernel takes, by NumPy's, and then the rest."""
        assert simd.library is not None
        while True:
            with np.errstate(all="ignore"):
                self.backend.bind(*steps[place][:4])()
            records, steps = records[place + 1 :], steps[place + 1 :]
            try:
                if records:
                    words = simd.library.message(records)[0]
                    simd.library.run(words, [s.name for s in steps], partial(self._explain, steps))
                return
            except simd.Refused as refused:
                place = refused.place

    def _explain(self, steps: Sequence[Step], place: int) -> None:
        """Run a step by NumPy's kernel, which raises with the index that is out of range."""
        self.backend.bind(*steps[place][:4])()

    def _draw(self, step: Step) -> None:
        assert step.draw is not None
        generator, words = step.draw
        seed, offset = generator.reserve(words)
        attrs = {**step.attrs, "seed": seed, "offset": offset}
        self.backend.run(step.name, step.inputs, step.out, attrs)


NOTHING = np.empty(0, np.uint8)


def vacate(slot: Slot) -> None:
    """Release a slot's memory until it is bound again."""
    slot.buffer, slot.address = NOTHING, 0


def _place(slot: Slot, buffer: Any) -> None:
    slot.buffer, slot.address = buffer, address(buffer)


def address(buffer: Any) -> int:
    """The address of an array's bytes."""
    first_byte: int = buffer.__array_interface__["data"][0]
    return first_byte
