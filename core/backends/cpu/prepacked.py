"""What is computed of tensors from outside alone, before a run and only when they changed.

Such are weights in the form that C kernels multiply, and the values of steps.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.basis.dtype import DType, float32, int64, uint8
from rushlight.core.basis.graph import GraphOperand, Memory, Slot, Step, TensorView
from rushlight.core.basis.layout import Layout

_MOST = 192 << 20  # the most bytes of all packed weights
_SMALL = 1 << 16  # bytes of a constant step's value that are always held
_MOST_HELD = 16 << 20  # the most bytes of the larger ones in one graph
_PLACES = 2048  # with more results of a filter, packing again takes no time to speak of


def _private(slot: Slot) -> bool:
    """Whether the slot is memory from outside that its owner's ops alone write to."""
    memory = slot.ref()
    unwritten = slot.kind == "outer" and not slot.writes
    return unwritten and memory is not None and not memory.lent


class Watch:
    """Memory from outside, and whether it may have changed since what is made of it was made."""

    def __init__(self, memory: Iterable[Memory]) -> None:
        self.refs = [weakref.ref(x) for x in memory]
        self.computed_at: list[int] | None = None  # the versions then

    def versions(self) -> list[int] | None:
        """The versions now; None where others could write to the memory, or it is gone."""
        refs: list[Any] = self.refs
        try:
            found = [-1 if (x := ref()).lent else x.version for ref in refs]
        except AttributeError:
            return None
        return None if -1 in found else found

    def recompute(self, calls: Iterable[Callable[[], None]]) -> None:
        """Make it again by `calls`, if ops wrote to the memory or others could."""
        memory = [x for ref in self.refs if (x := ref()) is not None]
        versions = [x.version for x in memory]
        if self.computed_at != versions or any(x.lent for x in memory):
            self.computed_at = None  # if a call raises
            for call in calls:
                call()
            self.computed_at = versions


def constant_steps(steps: Sequence[Step], results: Collection[Slot]) -> tuple[list[Step], Watch]:
    """The steps whose values change only where tensors from outside do, and those tensors.

    Of values that are not small, as many are held as fit.
    """
    writes: dict[Slot, int] = {}
    for step in steps:
        writes[step.out.storage] = writes.get(step.out.storage, 0) + 1
    constant: dict[Slot, Step] = {}
    sources: dict[Slot, Memory] = {}
    left = _MOST_HELD
    for step in steps:
        out, reads = step.out.storage, [x.storage for x in step.inputs if x is not None]
        once = out.kind == "temp" and writes[out] == 1 and out not in results
        costs = out.nbytes if out.nbytes > _SMALL else 0
        if not once or step.draw or not reads or costs > left:
            continue
        if all(slot in constant or slot.fixed or _private(slot) for slot in reads):
            constant[out] = step
            left -= costs
            sources |= {s: memory for s in reads if (memory := s.ref()) and s.kind == "outer"}
    return list(constant.values()), Watch(sources.values())


class PackedWeight:
    """The form of one weight, packed again in runs before which the weight may have changed."""

    alive: ClassVar[weakref.WeakSet[PackedWeight]] = weakref.WeakSet()

    def __init__(self, key: tuple[Any, ...], memory: Memory, count: int, dtype: DType) -> None:
        self.key, self.watch = key, Watch([memory])
        self.buffer = np.empty(dtype.nbytes(count), np.uint8)
        self.address: int = self.buffer.__array_interface__["data"][0]
        self.view = TensorView(self, Layout.contiguous((count,)), dtype)
        self.words = array("q")
        self.alive.add(self)

    def pack(self) -> None:
        """Compute the form."""
        assert simd.library is not None
        simd.library.run(self.words, ["conv2d"])


def prepack(step: Step, record: Record) -> tuple[Record, PackedWeight | None]:
    """The record of a product with its weight packed, where that may be and pays."""
    library = simd.library
    if record.kernel == "byte_product":
        packed = _packed("byte_keep", step.inputs[1], (), (), uint8)
        if packed is None:
            return record, None
        return Record(record.kernel, (*record.operands[:8], packed.view)), packed
    weight = record.operands[2] if record.kernel in ("conv2d", "conv2d_tail") else None
    if weight is None or library is None or "conv2d_kept" not in library.numbers:
        return record, None
    out = record.operands[0].layout.shape
    if weight.dtype is not float32 or out[0] * out[2] * out[3] > _PLACES:
        return record, None
    geometry = (*record.attrs[:7], *out[2:])
    packed = _packed("conv2d_keep", weight, geometry, geometry[:7], float32)
    if packed is None:
        return record, None
    operands: Sequence[Any] = (*record.operands[:4], packed.view, *record.operands[4:])
    return Record("conv2d_kept", tuple(operands), record.attrs), packed


def _packed(
    kernel: str,
    weight: GraphOperand | None,
    attrs: tuple[int, ...],
    decisive: tuple[int, ...],
    dtype: DType,
) -> PackedWeight | None:
    """The form that `kernel` makes of a weight, of elements of `dtype`; one for all its users.

    decisive: the attributes that the form depends on. None for what may change or has no form.
    """
    library = simd.library
    if weight is None or library is None or not _private(weight.storage):
        return None
    slot = weight.storage
    memory = slot.ref()
    assert memory is not None
    count = _count(kernel, weight, attrs)
    key = (kernel, id(memory), slot.address, weight.layout, decisive, count)
    packed = next(
        (x for x in PackedWeight.alive if x.key == key and x.watch.refs[0]() is memory), None
    )
    if packed is None:
        held = sum(x.buffer.nbytes for x in PackedWeight.alive)
        if not count or held + dtype.nbytes(count) > _MOST:
            return None
        packed = PackedWeight(key, memory, count, dtype)
        packed.words = library.message([Record(kernel, (packed.view, weight), attrs)])[0]
    return packed


def _count(kernel: str, weight: GraphOperand, attrs: tuple[int, ...]) -> int:
    """How many elements the form takes; 0 where there is none."""

    class Place:
        buffer = np.zeros(8, np.uint8)
        address: int = buffer.__array_interface__["data"][0]

    out = TensorView(Place, Layout.contiguous((1,)), int64)
    try:
        simd.run([Record(kernel, (out, weight), attrs)], [kernel])
    except simd.Refused:
        return 0
    return int(Place.buffer.view(np.int64)[0])
