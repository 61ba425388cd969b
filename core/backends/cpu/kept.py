"""What depends on tensors from outside alone, kept between an executable's runs.

Such are the weights of convolutions in the form that C kernels multiply, and the values of steps.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.basis.dtype import float32, int64
from rushlight.core.basis.graph import GraphOperand, Memory, Slot, Step, TensorView
from rushlight.core.basis.layout import Layout

_MOST = 192 << 20  # the most bytes of all that is kept
_SMALL = 1 << 16  # the most bytes of a step's value that is kept
_PLACES = 2048  # with more results of a filter, making the form again takes no time to speak of


def _private(slot: Slot) -> bool:
    """Whether the slot is memory from outside that its owner's ops alone write to."""
    memory = slot.ref()
    mine = slot.kind == "outer" and not slot.writes
    return mine and memory is not None and not memory.lent


class Watch:
    """Memory from outside, and whether it may have changed since what is made of it was made."""

    def __init__(self, memory: Iterable[Memory]) -> None:
        self.refs = [weakref.ref(x) for x in memory]
        self.made: list[int] | None = None  # the versions then

    def renew(self, calls: Iterable[Callable[[], None]]) -> None:
        """Make it again by `calls`, if ops wrote to the memory or others could."""
        found = [x for ref in self.refs if (x := ref()) is not None]
        versions = [x.version for x in found]
        if self.made != versions or any(x.lent for x in found):
            self.made = None  # if a call raises
            for call in calls:
                call()
            self.made = versions


def settled(steps: Sequence[Step], results: Collection[Slot]) -> tuple[list[Step], Watch]:
    """The steps whose small values change only where tensors from outside do, and those tensors."""
    written: dict[Slot, int] = {}
    for step in steps:
        written[step.out.storage] = written.get(step.out.storage, 0) + 1
    made: dict[Slot, Step] = {}
    sources: dict[Slot, Memory] = {}
    for step in steps:
        out, given = step.out.storage, [x.storage for x in step.inputs if x is not None]
        once = out.kind == "temp" and written[out] == 1 and out not in results
        if not once or step.draw or not given or out.nbytes > _SMALL:
            continue
        if all(slot in made or slot.fixed or _private(slot) for slot in given):
            made[out] = step
            sources |= {s: memory for s in given if (memory := s.ref()) and s.kind == "outer"}
    return list(made.values()), Watch(sources.values())


class Kept:
    """The form of one weight, made again in runs before which the weight may have changed."""

    alive: ClassVar[weakref.WeakSet[Kept]] = weakref.WeakSet()

    def __init__(self, key: tuple[Any, ...], memory: Memory, count: int) -> None:
        self.key, self.watch = key, Watch([memory])
        self.buffer = np.empty(4 * count, np.uint8)
        self.address: int = self.buffer.__array_interface__["data"][0]
        self.view = TensorView(self, Layout.contiguous((count,)), float32)
        self.words = array("q")
        self.alive.add(self)

    def make(self) -> None:
        """Make the form."""
        assert simd.library is not None
        simd.library.run(self.words, ["conv2d"])


def keep(step: Step, record: Record) -> tuple[Record, Kept | None]:
    """The record of a convolution with its weight kept, where that may be and pays."""
    weight = step.inputs[1] if record.kernel in ("conv2d", "conv2d_tail") else None
    library = simd.library
    if weight is None or library is None or "conv2d_kept" not in library.numbers:
        return record, None
    slot, out = weight.storage, step.out.layout.shape
    memory = slot.ref()
    if memory is None or not _private(slot):
        return record, None
    if weight.dtype is not float32 or out[0] * out[2] * out[3] > _PLACES:
        return record, None
    told = (*record.attrs[:7], *out[2:])
    count = _count(weight, told)
    key = (id(memory), slot.address, weight.layout, told[:7], count)
    found = next((x for x in Kept.alive if x.key == key and x.watch.refs[0]() is memory), None)
    if found is None:
        if not count or sum(x.buffer.nbytes for x in Kept.alive) + 4 * count > _MOST:
            return record, None
        found = Kept(key, memory, count)
        found.words = library.message([Record("conv2d_keep", (found.view, weight), told)])[0]
    operands: Sequence[Any] = (*record.operands[:4], found.view, *record.operands[4:])
    return Record("conv2d_kept", tuple(operands), record.attrs), found


def _count(weight: GraphOperand, told: tuple[int, ...]) -> int:
    """How many floats the form takes; 0 where there is none."""

    class Place:
        buffer = np.zeros(8, np.uint8)
        address: int = buffer.__array_interface__["data"][0]

    out = TensorView(Place, Layout.contiguous((1,)), int64)
    simd.run([Record("conv2d_keep", (out, weight), told)], ["conv2d"])
    return int(Place.buffer.view(np.int64)[0])
