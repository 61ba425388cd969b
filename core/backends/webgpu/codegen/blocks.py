"""Quantized blocks on the device: their planes one after another in a buffer.

A kernel splits uploaded bytes into planes (`planes.py`). Another joins them again, byte for byte.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.backends.protocol import Bytes, Operand
from rushlight.core.backends.webgpu.codegen.planes import Plane, planes_of
from rushlight.core.backends.webgpu.emit import ALIGN, Emitter, grid
from rushlight.core.backends.webgpu.runtime.pool import Buffer
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.dtype import DType, int16, uint8, uint32
from rushlight.core.basis.errors import DeviceError
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend

# Bytes of the staging buffer; a whole number of groups of every dtype.
STAGING = 8 << 20
# Blocks that are repacked together: their bytes and scales are whole words.
GROUP = 64


def allocate(backend: WebGpuBackend, numel: int, dtype: DType, shared: bool = False) -> Buffer:
    """A buffer with planes for `numel` elements; `planes` says where they begin.

    shared: it may be part of a buffer, see `Pool.place`.
    """
    nbytes, starts = places(numel, dtype)
    pool = backend.pool
    buffer = pool.place(nbytes) if shared else pool.take(nbytes, lasting=True)
    buffer.planes = starts
    return buffer


def places(numel: int, dtype: DType) -> tuple[int, tuple[int, ...]]:
    """Bytes of a buffer for `numel` elements, and where its planes begin."""
    count, offset, starts = numel // dtype.block, 0, []
    for plane in planes_of(dtype):
        starts.append(offset)
        offset += -(-count * plane.nbytes // ALIGN) * ALIGN
    return max(offset, 4), tuple(starts)


def plane_value(x: Operand, index: int, layout: Layout) -> TensorView:
    """The rows of `layout` in one plane of `x`, as integers of up to four bytes."""
    nbytes = planes_of(x.dtype)[index].nbytes
    dtype = {1: uint8, 2: int16}.get(nbytes, uint32)
    size = dtype.itemsize
    per, block = nbytes // size, x.dtype.block  # elements per block
    start = (x.buffer.base + x.buffer.planes[index]) // size + layout.offset // block * per
    shape = (*layout.shape[:-1], layout.shape[-1] // block * per)
    strides = (*(s // block * per for s in layout.strides[:-1]), 1)
    return TensorView(x.buffer.whole, Layout(shape, strides, start), dtype)


def _reach(plane: Plane, dtype: DType, layout: Layout) -> tuple[int, int]:
    """The bytes of a plane that `layout` reaches, from a block on whose offset can be bound."""
    first, last = layout.extent
    step = ALIGN // math.gcd(ALIGN, plane.nbytes)
    low = first // dtype.block // step * step * plane.nbytes
    return low, -(-(-(-last // dtype.block) * plane.nbytes) // 16) * 16


def plane_slices(e: Emitter, x: Operand, layout: Layout) -> tuple[list[Slice], list[int]]:
    """Each plane's part that `layout` reaches, and how block numbers shift in it.

    Whole planes where they fit, so that bind groups are found again.
    """
    planes = planes_of(x.dtype)
    starts = [*x.buffer.planes, x.buffer.nbytes]
    slices, shifts = [], []
    for k, plane in enumerate(planes):
        low, high = 0, starts[k + 1] - starts[k]
        if high > e.binding_limit:
            low, end = _reach(plane, x.dtype, layout)
            high = min(end, high)
        if high - low > e.binding_limit:
            raise DeviceError(
                f"{e.op}: a {x.dtype.name} operand of shape {layout.shape} spans {high - low} "
                f"bytes, the adapter binds {e.binding_limit} at once",
                hint="split the tensor along its rows, or compute on cpu",
            )
        first = x.buffer.base + starts[k] + low
        slices.append(Slice(x.buffer.whole, first, max(high - low, 4)))
        shifts.append(-(low // plane.nbytes) & 0xFFFFFFFF)
    return slices, shifts


def planes_fit(e: Emitter, x: Operand, layout: Layout) -> bool:
    """Whether `plane_slices` would accept this part of `x`."""
    if x.buffer.nbytes <= e.binding_limit:
        return True
    reach = (_reach(plane, x.dtype, layout) for plane in planes_of(x.dtype))
    return all(high - low <= e.binding_limit for low, high in reach)


def _unit(dtype: DType) -> int:
    """The bytes that the kernels move at once: two, or one where a field begins at an odd one."""
    parts = [field for plane in planes_of(dtype) for field in plane.parts]
    odd = any(n % 2 for field in parts for n in field) or dtype.itemsize % 2
    return 1 if odd else 2


@cache
def _units(dtype: DType) -> tuple[str, ...]:
    unit = _unit(dtype)
    return (
        f"const UNITS = {4 // unit}u; const BITS = {8 * unit}u;",
        f"const FILE = {dtype.itemsize // unit}u;",
    )


@cache
def _pack_kernel(dtype: DType, index: int) -> Kernel:
    """The kernel that makes one plane."""
    unit, plane = _unit(dtype), planes_of(dtype)[index]
    steps = [
        f"if (i < {(p.at + p.nbytes) // unit}u) {{ "
        f"return i + {((p.start - p.at) // unit) & 0xFFFFFFFF}u; }}"
        for p in plane.parts
    ]
    lines = (
        *_units(dtype),
        f"const PLANE = {plane.nbytes // unit}u;",
        f"fn place(i: u32) -> u32 {{ {' '.join(steps)} return FILE; }}",
    )
    return Kernel(compose("blocks_pack", *lines), "rw", "blocks_pack")


@cache
def _unpack_kernel(dtype: DType) -> Kernel:
    """The kernel that joins all planes."""
    unit, planes = _unit(dtype), planes_of(dtype)
    parts = sorted((f.start, k, f) for k, plane in enumerate(planes) for f in plane.parts)
    steps = [
        f"if (i < {(start + f.nbytes) // unit}u) {{ "
        f"let at = (block + P({48 + k}u)) * {planes[k].nbytes // unit}u + i "
        f"+ {((f.at - start) // unit) & 0xFFFFFFFF}u; "
        f"return extractBits(plane_{k}[at / UNITS], at % UNITS * BITS, BITS); }}"
        for start, k, f in parts
    ]
    lines = [
        f"@group(0) @binding({k}) var<storage, read> plane_{k}: array<u32>;"
        for k in range(len(planes))
    ]
    lines += [
        f"@group(0) @binding({len(planes)}) var<storage, read_write> raw: array<u32>;",
        *_units(dtype),
        f"fn unit_at(block: u32, i: u32) -> u32 {{ {' '.join(steps)} return 0u; }}",
    ]
    letters = "r" * len(planes) + "w"
    return Kernel(compose("blocks_unpack", *lines), letters, "blocks_unpack")


def _pack(
    e: Emitter, dtype: DType, planes: Buffer, staging: Buffer, first: int, count: int
) -> None:
    """Move `count` blocks from the start of `staging` to the planes, from number `first` on."""
    raw_words = min(dtype.itemsize * count // 4 + 1, staging.nbytes // 4)
    staged, _ = e.bind(TensorView(staging, Layout.contiguous((raw_words,)), uint32))
    for k, plane in enumerate(planes_of(dtype)):
        words = -(-count * plane.nbytes // 4)
        start = (planes.base + planes.planes[k] + first * plane.nbytes) // 4
        bound, offset = e.bind(TensorView(planes.whole, Layout((words,), (1,), start), uint32))
        groups = grid(-(-words // 64))
        e.dispatch(_pack_kernel(dtype, k), [staged, bound], [words, offset, count], groups)


def _groups_at_once(backend: WebGpuBackend, dtype: DType) -> int:
    """Groups of blocks that can be staged and bound, as in the file and in each plane."""
    widest = max(dtype.itemsize, *(plane.nbytes for plane in planes_of(dtype)))
    limit = backend.port.limits["maxStorageBufferBindingSize"]
    return min(STAGING // (GROUP * dtype.itemsize), limit // (GROUP * widest))


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
            self.buffer = allocate(backend, numel, dtype, shared=True)
            groups = min(_groups_at_once(backend, dtype), -(-self.blocks // GROUP))
            self.capacity = max(groups, 1) * self.step
            self.staging = backend.pool.take(self.capacity, write=True)
        self.done = 0  # blocks in the planes
        self._rest = np.empty(0, np.uint8)

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return (self.blocks - self.done) * self.dtype.itemsize - self._rest.size

    def write(self, data: Bytes) -> None:
        """Write the next bytes; ValueError for more than the tensor has."""
        if data.size > self.missing:
            raise ValueError(
                f"{self.dtype.name}: {data.size} more bytes, the tensor misses {self.missing}"
            )
        last = data.size == self.missing
        if self._rest.size:
            data = np.concatenate([self._rest, data])
        taken = 0
        while data.size - taken >= self.capacity or (last and taken < data.size):
            piece = data[taken : taken + self.capacity]
            taken += piece.size
            self._put(piece)
        full_steps = (data.size - taken) // self.step * self.step
        if full_steps and not last:
            self._put(data[taken : taken + full_steps])
            taken += full_steps
        self._rest = data[taken:].copy()

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
            _pack(e, self.dtype, self.buffer, self.staging, self.done, count)
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
    step = _groups_at_once(backend, dtype) * GROUP
    begin = first // 2 * 2  # scales lie two to a word
    return [(b, min(step, last - b)) for b in range(begin, last, step)] if last > first else []


def cut(chunks: list[Bytes], start: int, stop: int, dtype: DType) -> Bytes:
    """Bytes start to stop, of parts that may begin one block earlier."""
    if not chunks:
        return np.empty(0, np.uint8)
    data = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    skip = start - start // dtype.itemsize // 2 * 2 * dtype.itemsize
    return data[skip : skip + stop - start]


def gather(backend: WebGpuBackend, buffer: Buffer, first: int, count: int, dtype: DType) -> Slice:
    """Record the kernel that joins blocks as in the file; returns the slice to read."""
    nbytes = -(-count * dtype.itemsize // 4) * 4
    raw = backend.pool.take(nbytes)
    e = backend.emitter("to")
    layout = Layout((count * dtype.block,), (1,), first * dtype.block)
    slices, shifts = plane_slices(e, TensorView(buffer, layout, dtype), layout)
    parameters = [0] * 51
    parameters[0:2] = [nbytes // 4, first]
    parameters[48 : 48 + len(shifts)] = shifts
    bindings = [*slices, Slice(raw, 0, raw.nbytes)]
    e.dispatch(_unpack_kernel(dtype), bindings, parameters, grid(-(-nbytes // 256)))
    return Slice(raw, 0, nbytes)
