"""Load plans: which bytes of which file become which tensor, and where they go.

A plan is a list of steps in the order of the files' bytes, so that whatever carries it out reads
each file once from front to back. This module carries it out for memory on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rushlight.core.dtype import DType, float64, int64
from rushlight.core.errors import FormatError
from rushlight.core.io.source import Bytes, BytesSource, MmapSource, Source
from rushlight.core.io.table import Table
from rushlight.core.tensor import Tensor

# A view of the source's own memory; a buffer of our own; memory of another device, which whoever
# carries the plan out writes piece by piece.
Destination = Literal["view", "heap", "device"]
_PIECE = 8 << 20
# Smaller tensors go to a device by way of the heap: a model may look at them while it is built.
_SMALL = 1 << 16


@dataclass(frozen=True, slots=True)
class Step:
    """`nbytes` bytes from `offset` of file number `file_index` become the tensor `name`."""

    file_index: int
    offset: int
    nbytes: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    destination: Destination


def load_plan(tables: Sequence[Table], destinations: Sequence[Destination]) -> list[Step]:
    """The steps that load every tensor of `tables`; file number i goes to `destinations[i]`.

    Where that is "device", small tensors and those whose bytes a device holds otherwise go to the
    heap. Raises FormatError when two files have a tensor of one name.
    """
    steps: dict[str, Step] = {}
    for index, (table, destination) in enumerate(zip(tables, destinations, strict=True)):
        for e in sorted(table.entries.values(), key=lambda e: e.offset):
            if e.name in steps:
                first = steps[e.name].file_index
                raise FormatError(f'tensor "{e.name}" is in file {first} and in file {index}')
            way = destination
            if way == "device" and (e.nbytes <= _SMALL or e.dtype in (int64, float64)):
                way = "heap"
            steps[e.name] = Step(index, e.offset, e.nbytes, e.name, e.dtype, e.shape, way)
    return list(steps.values())


def destination_for(source: Source) -> Destination:
    """ "view" where the source's memory can be a tensor's own, as a mapped file's can.

    Bytes that nobody may write to are copied, unless they are mapped: a file too large to be
    mapped for writing is too large to be copied.
    """
    if isinstance(source, MmapSource):
        return "view"
    return "view" if isinstance(source, BytesSource) and not source.view.readonly else "heap"


def run_plan(steps: Sequence[Step], sources: Sequence[Source]) -> Iterator[tuple[str, Tensor]]:
    """Carry out `steps`: gives (name, tensor on the CPU) one by one.

    Raises FormatError when a source ends early.
    """
    for step in steps:
        source = sources[step.file_index]
        if step.destination == "view":
            data = np.frombuffer(_whole(step, source, source.read(step.offset, step.nbytes)), "u1")
            # Files may place a tensor at any byte; kernels want addresses that fit the dtype.
            fits = data.ctypes.data % step.dtype.numpy.itemsize == 0
            buffer = data if fits else data.copy()
        else:
            buffer = np.empty(step.nbytes, np.uint8)
            for begin, n in _pieces(step.nbytes):
                piece = source.read(step.offset + begin, n)
                buffer[begin : begin + n] = np.frombuffer(_whole(step, source, piece, n), "u1")
        yield step.name, Tensor.from_buffer(buffer, step.dtype, step.shape)


async def run_plan_async(steps: Sequence[Step], sources: Sequence[Source]) -> dict[str, Tensor]:
    """As `run_plan`, for sources that cannot block; every tensor gets a buffer of its own."""
    tensors: dict[str, Tensor] = {}
    for step in steps:
        source, buffer = sources[step.file_index], np.empty(step.nbytes, np.uint8)
        for begin, n in _pieces(step.nbytes):
            piece = await source.read_async(step.offset + begin, n)
            buffer[begin : begin + n] = np.frombuffer(_whole(step, source, piece, n), "u1")
        tensors[step.name] = Tensor.from_buffer(buffer, step.dtype, step.shape)
    return tensors


def _pieces(nbytes: int) -> Iterator[tuple[int, int]]:
    """(begin, length) of pieces of `nbytes` bytes: what is in flight at a time stays small."""
    for begin in range(0, nbytes, _PIECE):
        yield begin, min(_PIECE, nbytes - begin)


def _whole(step: Step, source: Source, data: Bytes, expected: int | None = None) -> Any:
    n = step.nbytes if expected is None else expected
    if len(data) != n:
        raise FormatError(
            f'{source.name}: tensor "{step.name}": only {len(data)} of {n} bytes can be read'
        )
    return data
