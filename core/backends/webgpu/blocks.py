"""Quantized blocks on the device: planes of scales, fifth bits and packed words in one buffer.

A GGUF block of 18 or 34 bytes cannot be read as words, so a kernel takes uploaded bytes apart
into planes; another puts them together again, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rushlight.core.backends import Bytes, Operand
from rushlight.core.backends.webgpu.emit import ALIGN, Emitter, Value, grid
from rushlight.core.backends.webgpu.pool import Buffer
from rushlight.core.backends.webgpu.recorder import Slice
from rushlight.core.dtype import DType, q4_0, q4_1, q5_0, q5_1, q8_0, uint32
from rushlight.core.errors import DeviceError
from rushlight.core.layout import Layout

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend

# Bytes that wait on their way to or from the planes; a whole number of groups of every dtype.
STAGING = 8 << 20
# Blocks that are repacked together: their bytes and scales are whole words.
GROUP = 64


class Plane(NamedTuple):
    """One plane: bytes per block, and where they begin in a block of the file."""

    nbytes: int
    start: int


# The planes in their order in the buffer: scales, fifth bits, packed words.
PLANES: dict[DType, tuple[Plane, ...]] = {
    q4_0: (Plane(2, 0), Plane(16, 2)),
    q4_1: (Plane(4, 0), Plane(16, 4)),
    q5_0: (Plane(2, 0), Plane(4, 2), Plane(16, 6)),
    q5_1: (Plane(4, 0), Plane(4, 4), Plane(16, 8)),
    q8_0: (Plane(2, 0), Plane(32, 2)),
}


def allocate(backend: WebGpuBackend, numel: int, dtype: DType) -> Buffer:
    """A buffer with planes for `numel` elements; `planes` says where they begin."""
    nbytes, starts = places(numel, dtype)
    buffer = backend.pool.take(nbytes)
    buffer.planes = starts
    return buffer


def places(numel: int, dtype: DType) -> tuple[int, tuple[int, ...]]:
    """Bytes of a buffer for `numel` elements, and where its planes begin."""
    count, at, starts = numel // dtype.block, 0, []
    for plane in PLANES[dtype]:
        starts.append(at)
        at += -(-count * plane.nbytes // ALIGN) * ALIGN
    return max(at, 4), tuple(starts)


def plane_value(x: Operand, index: int, layout: Layout, dtype: DType) -> Value:
    """The rows of `layout` in one plane of `x`, as elements of `dtype` (2 or 4 bytes wide)."""
    size = 2 if dtype.itemsize == 2 else 4
    per = PLANES[x.dtype][index].nbytes // size  # elements per block
    start = x.buffer.planes[index] // size
    shape = (*layout.shape[:-1], layout.shape[-1] // 32 * per)
    strides = (*(s // 32 * per for s in layout.strides[:-1]), 1)
    return Value(x.buffer, Layout(shape, strides, start + layout.offset // 32 * per), dtype)


def plane_slices(e: Emitter, x: Operand, layout: Layout) -> tuple[list[Slice], list[int]]:
    """Each plane's part that `layout` reaches, and how block numbers shift: scales, highs, quants.

    Whole planes where they fit, so that bind groups are found again.
    """
    planes = PLANES[x.dtype]
    starts = [*x.buffer.planes, x.buffer.nbytes]
    first, last = layout.extent
    slices, shifts = [], []
    for k, plane in enumerate(planes):
        low, high = 0, starts[k + 1] - starts[k]
        if high > e.binding_limit:
            # Begin on a block whose bytes lie on an aligned offset.
            step = max(ALIGN // plane.nbytes, 1)
            block = first // 32 // step * step
            low = block * plane.nbytes
            high = min(-(-(last // 32 * plane.nbytes) // 16) * 16, high)
        if high - low > e.binding_limit:
            raise DeviceError(
                f"{e.op}: a {x.dtype.name} operand of shape {layout.shape} spans {high - low} "
                f"bytes, the adapter binds {e.binding_limit} at once",
                hint="split the tensor along its rows, or compute on cpu",
            )
        slices.append(Slice(x.buffer, starts[k] + low, max(high - low, 4)))
        shifts.append(-(low // plane.nbytes) & 0xFFFFFFFF)
    if len(planes) == 2:
        shifts.insert(1, 0)
    return slices, shifts


def planes_fit(e: Emitter, x: Operand, layout: Layout) -> bool:
    """Whether `plane_slices` would accept this part of `x`."""
    first, last = layout.extent
    most = max(plane.nbytes for plane in PLANES[x.dtype])
    return (last - first) // 32 * most + 2 * ALIGN <= e.binding_limit


def _dispatch(
    e: Emitter, file: str, dtype: DType, planes: Buffer, raw: Buffer, first: int, count: int
) -> None:
    """Move `count` blocks from number `first` on between planes and the start of `raw`."""
    raw_words = dtype.itemsize * count // 4 + 1
    bytes_ = Value(raw, Layout.contiguous((min(raw_words, raw.nbytes // 4),)), uint32)
    row = Layout((count * 32,), (1,), first * 32)
    holder = Value(planes, row, dtype)
    for k, plane in enumerate(PLANES[dtype]):
        per = max(plane.nbytes // 4, 1)
        pairs = plane.nbytes == 2
        words = -(-count // 2) if pairs else count * per
        start = planes.planes[k] // 4 + (first // 2 if pairs else first * per)
        target = Value(holder.buffer, Layout((words,), (1,), start), uint32)
        bound, at = e.bind(target)
        staged, _ = e.bind(bytes_)
        parameters = [words, at, per, plane.start // 2, dtype.itemsize // 2, int(pairs), count]
        kernel = e.kernel(file, "rw")
        if file == "blocks_pack":
            e.dispatch(kernel, [staged, bound], parameters, grid(-(-words // 64)))
        else:
            e.dispatch(kernel, [bound, staged], parameters, grid(-(-words // 64)))


class BlockWriter:
    """Fills the planes of a new buffer from the bytes of a GGUF tensor, piece by piece.

    `write` takes pieces of any size. Code that can write to GPU memory by itself puts up to
    `capacity` bytes at the start of `staging` and calls `commit` instead; its pieces must be
    multiples of `step` bytes, but for the last. `buffer` is complete when all has been given.
    """

    def __init__(self, backend: WebGpuBackend, numel: int, dtype: DType) -> None:
        self.backend, self.dtype = backend, dtype
        self.blocks = numel // dtype.block
        self.step = GROUP * dtype.itemsize
        with backend.lock:
            self.buffer = allocate(backend, numel, dtype)
            limit = min(STAGING, backend.port.limits["maxStorageBufferBindingSize"])
            whole = -(-self.blocks * dtype.itemsize // self.step) * self.step
            self.capacity = max(min(limit // self.step * self.step, whole), self.step)
            self.staging = backend.pool.take(self.capacity, write=True)
        self.done = 0  # blocks in the planes
        self._rest = np.empty(0, np.uint8)

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return (self.blocks - self.done) * self.dtype.itemsize - self._rest.size

    def write(self, data: Bytes) -> None:
        """Take the next bytes; ValueError for more than the tensor has."""
        if data.size > self.missing:
            raise ValueError(
                f"{self.dtype.name}: {data.size} more bytes, the tensor misses {self.missing}"
            )
        last = data.size == self.missing
        if self._rest.size:
            data = np.concatenate([self._rest, data])
        at = 0
        while data.size - at >= self.capacity or (last and at < data.size):
            piece = data[at : at + self.capacity]
            at += piece.size
            self._put(piece)
        whole = (data.size - at) // self.step * self.step
        if whole and not last:
            self._put(data[at : at + whole])
            at += whole
        self._rest = data[at:].copy()

    def _put(self, piece: Bytes) -> None:
        with self.backend.lock:
            padded = piece
            if piece.size % 4:
                padded = np.zeros(-(-piece.size // 4) * 4, np.uint8)
                padded[: piece.size] = piece
            self.backend.recorder.write(self.staging, padded)
            self._rest = np.empty(0, np.uint8)
            self.commit(piece.size)

    def commit(self, nbytes: int) -> None:
        """Repack the first `nbytes` bytes of `staging`, which are the next of the tensor."""
        count = nbytes // self.dtype.itemsize
        if nbytes > self.capacity or nbytes > self.missing or nbytes % self.dtype.itemsize:
            raise ValueError(f"{self.dtype.name}: {nbytes} bytes cannot be taken at once")
        if nbytes % self.step and nbytes != self.missing:
            raise ValueError(f"{self.dtype.name}: {nbytes} bytes are no multiple of {self.step}")
        with self.backend.lock:
            e = self.backend.emitter("to")
            _dispatch(e, "blocks_pack", self.dtype, self.buffer, self.staging, self.done, count)
            self.done += count


def upload(backend: WebGpuBackend, data: Bytes, dtype: DType) -> Buffer:
    """A buffer with the planes of the GGUF bytes `data`."""
    writer = BlockWriter(backend, data.size // dtype.itemsize * dtype.block, dtype)
    if data.size:
        writer.write(data)
    return writer.buffer


def parts(backend: WebGpuBackend, start: int, stop: int, dtype: DType) -> list[tuple[int, int]]:
    """Bytes start to stop of the file's form as (first block, blocks) small enough to stage."""
    first, last = start // dtype.itemsize, stop // dtype.itemsize
    limit = min(STAGING, backend.port.limits["maxStorageBufferBindingSize"])
    step = limit // (GROUP * dtype.itemsize) * GROUP
    begin = first // 2 * 2  # scales lie two to a word
    return [(b, min(step, last - b)) for b in range(begin, last, step)] if last > first else []


def cut(found: list[Bytes], start: int, stop: int, dtype: DType) -> Bytes:
    """Bytes start to stop, of parts that may begin one block earlier."""
    if not found:
        return np.empty(0, np.uint8)
    whole = found[0] if len(found) == 1 else np.concatenate(found)
    skip = start - start // dtype.itemsize // 2 * 2 * dtype.itemsize
    return whole[skip : skip + stop - start]


def gather(backend: WebGpuBackend, buffer: Buffer, first: int, count: int, dtype: DType) -> Slice:
    """Record the kernel that puts blocks together as in the file; a slice to be read."""
    nbytes = -(-count * dtype.itemsize // 4) * 4
    raw = backend.pool.take(nbytes)
    e = backend.emitter("to")
    halves = count * dtype.itemsize // 2
    slices, shifts = plane_slices(
        e, Value(buffer, Layout((count * 32,), (1,), first * 32), dtype),
        Layout((count * 32,), (1,), first * 32),
    )  # fmt: skip
    planes = PLANES[dtype]
    scale, quants = planes[0].nbytes // 2, planes[-1].nbytes // 2
    parameters = [0] * 51
    parameters[0:6] = [halves, first, dtype.itemsize // 2, scale, len(planes) - 2, quants]
    parameters[48:51] = shifts
    bindings = [slices[0], slices[-2] if len(planes) == 3 else slices[-1], slices[-1]]
    kernel = e.kernel("blocks_unpack", "rrrw")
    given = [*bindings, Slice(raw, 0, raw.nbytes)]
    e.dispatch(kernel, given, parameters, grid(-(-nbytes // 256)))
    return Slice(raw, 0, nbytes)
