"""Weights of convolutions in the form that C kernels multiply, kept between runs of executables."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.basis.dtype import float32, int64
from rushlight.core.basis.graph import GraphOperand, Memory, Step, TensorView
from rushlight.core.basis.layout import Layout

_MOST = 192 << 20  # the most bytes of all that is kept
_PLACES = 2048  # with more results of a filter, making the form again takes no time to speak of


class Kept:
    """The form of one weight, made again in runs before which the weight may have changed."""

    alive: ClassVar[weakref.WeakSet[Kept]] = weakref.WeakSet()

    def __init__(self, key: tuple[Any, ...], memory: Memory, count: int) -> None:
        self.key, self.ref, self.made = key, weakref.ref(memory), -1
        self.buffer = np.empty(4 * count, np.uint8)
        self.address: int = self.buffer.__array_interface__["data"][0]
        self.view = TensorView(self, Layout.contiguous((count,)), float32)
        self.words = array("q")
        self.alive.add(self)

    def renew(self) -> None:
        """Make the form again, unless the weight is as it was and nobody else can write to it."""
        memory = self.ref()
        if memory is not None and (memory.lent or memory.version != self.made):
            assert simd.library is not None
            simd.library.run(self.words, ["conv2d"])
            self.made = memory.version


def keep(step: Step, record: Record) -> tuple[Record, Kept | None]:
    """The record of a convolution with its weight kept, where that may be and pays."""
    weight = step.inputs[1] if record.kernel in ("conv2d", "conv2d_tail") else None
    library = simd.library
    if weight is None or library is None or "conv2d_kept" not in library.numbers:
        return record, None
    slot, out = weight.storage, step.out.layout.shape
    memory = slot.ref()
    if slot.kind != "outer" or slot.writes or memory is None or memory.lent:
        return record, None
    if weight.dtype is not float32 or out[0] * out[2] * out[3] > _PLACES:
        return record, None
    told = (*record.attrs[:7], *out[2:])
    count = _count(weight, told)
    key = (id(memory), slot.address, weight.layout, told[:7], count)
    found = next((x for x in Kept.alive if x.key == key and x.ref() is memory), None)
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
