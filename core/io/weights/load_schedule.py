"""Load schedules: the file range and the destination of every tensor.

A schedule is a list of steps in the order of the files' bytes, so each file is read once from front
to back. This module runs a schedule into the CPU's memory; web/loading/ runs it in a tab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rushlight.core.basis.codec import is_narrow, widened
from rushlight.core.basis.dtype import DType, float64, int64
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.byteorder import swap_bytes
from rushlight.core.io.weights.source import Bytes, BytesSource, MmapSource, Source
from rushlight.core.io.weights.table import Table
from rushlight.core.tensor.tensor import Tensor, from_numpy

# A view of the source's memory; a new buffer in the heap; memory of another device, written in
# pieces.
Destination = Literal["view", "heap", "device"]
_PIECE = 8 << 20
# Smaller tensors go to a device by way of the heap: a model may look at them while it is built.
_SMALL = 1 << 16


@dataclass(frozen=True, slots=True)
class LoadStep:
    """Load `nbytes` bytes from `offset` of file `file_index` as the tensor `name`.

    swapped: the bytes of every number are to be reversed.
    """

    file_index: int
    offset: int
    nbytes: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    destination: Destination
    swapped: bool = False


LoadSchedule = list[LoadStep]


def load_schedule(tables: Sequence[Table], destinations: Sequence[Destination]) -> LoadSchedule:
    """The steps that load every tensor of `tables`; file number i goes to `destinations[i]`.

    For "device", small tensors, and those whose bytes the device stores in another layout, go to
    the heap, and so do all whose bytes are swapped or whose dtype is narrow. Raises FormatError if
    two files have a tensor of one name.
    """
    steps: dict[str, LoadStep] = {}
    for index, (table, destination) in enumerate(zip(tables, destinations, strict=True)):
        for e in sorted(table.entries.values(), key=lambda e: e.offset):
            if e.name in steps:
                first = steps[e.name].file_index
                raise FormatError(f'tensor "{e.name}" is in file {first} and in file {index}')
            way = destination
            if is_narrow(e.dtype) or (
                way == "device" and (e.nbytes <= _SMALL or e.dtype in (int64, float64))
            ):
                way = "heap"
            steps[e.name] = LoadStep(
                index,
                e.offset,
                e.nbytes,
                e.name,
                e.dtype,
                e.shape,
                "heap" if e.swapped else way,
                e.swapped,
            )
    return list(steps.values())


def destination_for(source: Source) -> Destination:
    """The destination of tensors: "view" if they can share the source's memory, else "heap".

    Read-only bytes are copied, unless they are a mapped file: a file too large to be mapped for
    writing is too large to be copied.
    """
    if isinstance(source, MmapSource):
        return "view"
    return "view" if isinstance(source, BytesSource) and not source.view.readonly else "heap"


def run_schedule(steps: LoadSchedule, sources: Sequence[Source]) -> Iterator[tuple[str, Tensor]]:
    """Run the steps of a schedule: yields (name, tensor on the CPU) one by one.

    Raises FormatError if a source ends early.
    """
    for step in steps:
        source = sources[step.file_index]
        if step.destination == "view":
            data = np.frombuffer(_whole(step, source, source.read(step.offset, step.nbytes)), "u1")
            # A file may place a tensor at any byte; kernels need addresses aligned to the dtype.
            fits = data.ctypes.data % step.dtype.numpy.itemsize == 0
            buffer = data if fits else data.copy()
        else:
            buffer = np.empty(step.nbytes, np.uint8)
            for begin, n in _pieces(step.nbytes):
                piece = source.read(step.offset + begin, n)
                buffer[begin : begin + n] = np.frombuffer(_whole(step, source, piece, n), "u1")
        if step.swapped:
            swap_bytes(buffer, step.dtype)
        tensor = tensor_of(buffer, step.dtype, step.shape)
        tensor.storage.lent = step.destination == "view" and not isinstance(source, MmapSource)
        yield step.name, tensor


async def run_schedule_async(steps: LoadSchedule, sources: Sequence[Source]) -> dict[str, Tensor]:
    """`run_schedule` for sources that cannot block; every tensor gets a new buffer."""
    tensors: dict[str, Tensor] = {}
    for step in steps:
        source, buffer = sources[step.file_index], np.empty(step.nbytes, np.uint8)
        for begin, n in _pieces(step.nbytes):
            piece = await source.read_async(step.offset + begin, n)
            buffer[begin : begin + n] = np.frombuffer(_whole(step, source, piece, n), "u1")
        if step.swapped:
            swap_bytes(buffer, step.dtype)
        tensors[step.name] = tensor_of(buffer, step.dtype, step.shape)
    return tensors


def tensor_of(buffer: Any, dtype: DType, shape: Sequence[int]) -> Tensor:
    """The tensor of a file's bytes; those of a narrow dtype become float32.

    `buffer` has the bytes of `shape`. Raises ShapeError for another count.
    """
    if is_narrow(dtype):
        return from_numpy(widened(dtype, np.asarray(buffer)).reshape(shape))
    return Tensor.from_buffer(buffer, dtype, shape)


def _pieces(nbytes: int) -> Iterator[tuple[int, int]]:
    """(begin, length) of pieces of `nbytes` bytes, which bound the memory in flight."""
    for begin in range(0, nbytes, _PIECE):
        yield begin, min(_PIECE, nbytes - begin)


def _whole(step: LoadStep, source: Source, data: Bytes, expected: int | None = None) -> Any:
    n = step.nbytes if expected is None else expected
    if len(data) != n:
        raise FormatError(
            f'{source.name}: tensor "{step.name}": only {len(data)} of {n} bytes can be read'
        )
    return data
