"""What a captured run becomes: buffers for what it makes, and calls in order that know theirs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rushlight.core.backends import Device, device, get_linear_mode, linear_mode, profiling
from rushlight.core.backends.cpu import simd, takers
from rushlight.core.backends.folding import fold
from rushlight.core.backends.reusing import reuse
from rushlight.core.capture import Recorder, Slot, Step

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

# What may be done to a plan; "fuse" and "merge" are webgpu's.
PASSES = frozenset({"fold", "fuse", "merge", "reuse"})
_CPU = device("cpu")


class Pool:
    """Buffers that plans have in common, of which one runs at a time: who holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._buffers: list[weakref.ref[Any]] = []

    def buffers(self) -> list[Any]:
        """Those that a plan still has."""
        return [b for ref in self._buffers if (b := ref()) is not None]

    def add(self, new: Any) -> None:
        """One more."""
        self._buffers = [*map(weakref.ref, self.buffers()), weakref.ref(new)]


class Plan(Protocol):
    """The calls of one captured run, for one thread at a time.

    nbytes: of what is its own; shared: the buffers of the pool that it uses.
    """

    nbytes: int
    shared: dict[int, Any]

    @property
    def alive(self) -> bool:
        """Whether it can be run at all."""

    def bind(self, slot: Slot, tensor: Tensor) -> None:
        """Give an argument's slot the memory of a tensor, for the next run."""

    def fresh(self, slot: Slot) -> Any:
        """A new buffer for a result of the next run."""

    def run(self) -> None:
        """All of it, once."""

    def vacate(self) -> None:
        """Let go of what was bound for a run."""


def make_plan(
    where: Device, recorder: Recorder, variable: set[Slot], results: set[Slot],
    passes: Collection[str], pool: Pool,
) -> Plan:  # fmt: skip
    """The plan of a device; variable: the slots that get a buffer for each run."""
    if where is _CPU:
        return CpuPlan(recorder, variable, results, passes, pool)
    from rushlight.core.backends.webgpu import replay

    backend: Any = where.backend
    steps, slots = recorder.steps, recorder.slots
    return replay.Plan(backend, steps, slots, variable, results, passes, pool)


class CpuPlan:
    """The plan of the cpu device: calls in order that know their buffers."""

    alive = True

    def __init__(self, recorder: Recorder, variable: set[Slot], results: set[Slot],
                 passes: Collection[str], pool: Pool) -> None:  # fmt: skip
        self.nbytes = 0
        self.shared: dict[int, Any] = {}
        self.variable = variable
        self.slots = recorder.slots  # messages know addresses only, so somebody has to hold these
        for slot in variable:
            vacate(slot)
        for slot in recorder.slots:
            if slot.kind == "outer":
                storage = slot.ref()
                slot.address = 0 if storage is None else storage.address
            elif slot.kind == "const":
                _place(slot, slot.buffer)
        steps = recorder.steps
        if "fold" in passes:
            steps = fold(steps, results, self._fold)
        # Draws depend on nothing, so they come first and part no others.
        steps = [s for s in steps if s.draw] + [s for s in steps if not s.draw]
        self._buffers(steps, results, pool if "reuse" in passes else None)
        self.calls: list[Callable[[], None]] = []
        self.told: list[list[Step]] = []  # the steps of each call, for profiles
        self.messages = 0
        self._bind(steps)

    def bind(self, slot: Slot, tensor: Tensor) -> None:
        """Give an argument's slot the memory of a tensor. ValueError where it cannot be written."""
        if slot.writes and not tensor.buffer.flags.writeable:
            raise ValueError(
                f"jit: an argument of shape {tensor.shape} is written to, but is read-only"
            )
        start = tensor.dtype.nbytes(tensor.layout.offset)
        slot.buffer = tensor.buffer[start:] if start else tensor.buffer
        slot.address = tensor.storage.address + start

    def fresh(self, slot: Slot) -> Any:
        """A new buffer for a result."""
        _place(slot, np.empty(slot.nbytes, np.uint8))
        return slot.buffer

    def vacate(self) -> None:
        """Let go of what was bound for a run."""
        for slot in self.variable:
            vacate(slot)

    def run(self) -> None:
        """All of it, once."""
        if profiling.watching:
            profiling.watching[-1](self.calls, self.told)
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
        _CPU.backend.run(step.name, step.inputs, step.out, step.attrs)

    def _buffers(self, steps: list[Step], results: set[Slot], pool: Pool | None) -> None:
        """Memory for what steps write: one buffer serves several slots, one after the other."""
        wanted = {
            slot: slot.nbytes for slot in (step.out.storage for step in steps)
            if slot.kind == "temp" and slot.buffer is None and slot not in self.variable
        }  # fmt: skip
        for slot in list(wanted):
            if pool is None or slot in results:
                self._own(slot)
                del wanted[slot]
        if pool is None:
            return

        def make(size: int) -> tuple[int, int, Any]:
            new = np.empty(size, np.uint8)
            pool.add(new)
            return size, address(new), new

        uses = [[x.storage for x in (*s.inputs, s.out) if x is not None] for s in steps]
        there = ((b.nbytes, address(b), b) for b in pool.buffers())
        for slot, buffer in reuse(uses, wanted, there, make).items():
            _place(slot, buffer)
            self.shared[slot.address] = buffer

    def _own(self, slot: Slot) -> None:
        _place(slot, np.empty(slot.nbytes, np.uint8))
        self.nbytes += slot.nbytes

    def _bind(self, steps: list[Step]) -> None:
        """Make the calls: neighbours with a C kernel are one message."""
        records: list[Any] = []
        sent: list[Step] = []
        backend: Any = _CPU.backend
        mode = get_linear_mode()
        for step in steps:
            if step.draw:
                self.calls.append(partial(_draw, step))
                self.told.append([step])
                continue
            with linear_mode(step.mode) if step.mode != mode else nullcontext():
                record = takers.record(step.name, step.inputs, step.out, step.attrs)
            if record is not None:
                records.append(record)
                sent.append(step)
                continue
            self._send(records, sent)
            records, sent = [], []
            operands = (*step.inputs, step.out)
            moves = any(x is not None and x.storage in self.variable for x in operands)
            run: Any = partial(partial, backend.run) if moves else backend.bind
            self.calls.append(run(step.name, step.inputs, step.out, step.attrs))
            self.told.append([step])
        self._send(records, sent)

    def _send(self, records: list[Any], steps: list[Step]) -> None:
        if not records:
            return
        assert simd.library is not None
        words, slots = simd.library.message(records)
        explain = partial(_explain, steps)
        run = partial(simd.library.run, words, [step.name for step in steps], explain)
        moving = [(4 + 2 * i, s) for i, s in enumerate(slots) if s in self.variable]

        def call() -> None:
            for at, slot in moving:
                words[at], words[at + 1] = slot.address, slot.buffer.nbytes
            run()

        self.nbytes += 8 * len(words)
        self.messages += 1
        self.told.append(steps)
        self.calls.append(call if moving else run)


NOTHING = np.empty(0, np.uint8)


def vacate(slot: Slot) -> None:
    """Leave a slot without memory until it is given some."""
    slot.buffer, slot.address = NOTHING, 0


def _place(slot: Slot, buffer: Any) -> None:
    slot.buffer, slot.address = buffer, address(buffer)


def address(buffer: Any) -> int:
    """Where an array's bytes begin."""
    found: int = buffer.__array_interface__["data"][0]
    return found


def _explain(steps: Sequence[Step], place: int) -> None:
    """Run a step whose C kernel met an index out of range by NumPy's, which says which it is."""
    backend: Any = _CPU.backend
    backend.bind(*steps[place][:4])()


def _draw(step: Step) -> None:
    assert step.draw is not None
    generator, words = step.draw
    seed, offset = generator.reserve(words)
    attrs = {**step.attrs, "seed": seed, "offset": offset}
    _CPU.backend.run(step.name, step.inputs, step.out, attrs)
