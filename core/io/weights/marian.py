"""Marian's binary models (marian-dev's io/binary.cpp): headers, names and shapes, then the data.

intgemm's matrices are integers with one multiplier of the tensor behind them. They are stored as
(out, in), unlike their shapes say; tables of embeddings are stored as their shapes say.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from rushlight.core.basis.dtype import (
    DType,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.basis.quantized import q8_0
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.source import Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

MAGIC = b"\1\0\0\0"  # the version, of eight bytes
_HEADER = struct.Struct("<4Q")  # bytes of the name, type, dims, bytes of the data
_MOST_TENSORS, _LONGEST, _MOST_DIMS = 1 << 16, 1 << 12, 8
_TYPES: dict[int, DType] = {
    0x101: int8,
    0x102: int16,
    0x104: int32,
    0x108: int64,
    0x201: uint8,
    0x402: float16,
    0x404: float32,
    0x408: float64,
}
_INTGEMM: dict[int, DType] = {0x4101: int8, 0x4102: int16}
_SCALE, _TABLE = ".scale", "Wemb"


def read_marian(source: Source) -> Table:
    """The table of a file; the multiplier of X is X.scale, and X has the shape it is stored in.

    Raises FormatError for a file that does not follow the format, for another version, and for
    types of one processor.
    """
    offset = 16
    head = bytes(source.read(0, offset))
    version, count = struct.unpack("<2Q", head.ljust(offset, b"\0"))
    if len(head) < offset or version != 1:
        raise FormatError(f"{source.name}: version {version} of Marian's files; supported: 1")

    def take(n: int, what: str) -> bytes:
        nonlocal offset
        got = bytes(source.read(offset, n)) if n <= source.size - offset else b""
        if len(got) != n:
            raise FormatError(
                f"{source.name}: {what} take {n} bytes at {offset}, past the file's end"
            )
        offset += n
        return got

    if count > _MOST_TENSORS:
        raise FormatError(f"{source.name}: {count} tensors are too many")
    rows = list(_HEADER.iter_unpack(take(_HEADER.size * count, "the headers")))
    if any(not 1 <= row[0] <= _LONGEST or row[2] > _MOST_DIMS for row in rows):
        raise FormatError(f"{source.name}: a header has a name or a shape that is too long")
    names = [take(row[0], "the names")[:-1].decode("utf-8", "backslashreplace") for row in rows]
    shapes = [struct.unpack(f"<{row[2]}i", take(4 * row[2], "the shapes")) for row in rows]
    (gap,) = struct.unpack("<Q", take(8, "the shapes"))
    offset += gap
    entries: dict[str, Entry] = {}
    for name, shape, (_, kind, _, nbytes) in zip(names, shapes, rows, strict=True):
        where = f"{source.name}: tensor {name!r:.100}"
        if name in entries:
            raise FormatError(f"{where} occurs twice")
        dtype = _INTGEMM.get(kind) or _TYPES.get(kind)
        if dtype is None:
            raise FormatError(
                f"{where} has type {kind:#x}, which is not supported",
                hint="supported: plain numbers, intgemm8 and intgemm16 for any processor",
            )
        fits = min(shape, default=0) >= 0 and count_elements(shape) <= MOST_ELEMENTS
        need = dtype.nbytes(math.prod(shape)) if fits else 0
        if not fits or need + 4 * (kind in _INTGEMM) > nbytes or nbytes > source.size - offset:
            raise FormatError(
                f"{where} {shape}: {nbytes} bytes at {offset} do not fit it or the file"
            )
        if kind in _INTGEMM:
            shape = shape if _TABLE in name else shape[::-1]
            entries[name + _SCALE] = Entry(name + _SCALE, float32, (), offset + need, 4)
        entries[name] = Entry(name, dtype, shape, offset, need)
        offset += nbytes
    return Table(entries)


def load_marian(source: Source, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a file; int8 with a multiplier becomes q8_0 where its rows fit, else float32.

    Quantized matrices have the shape (out, in), others the shape that the file says.
    """
    steps = load_schedule([read_marian(source)], [destination_for(source)])
    stored = dict(run_schedule(steps, [source]))
    tensors: dict[str, Tensor] = {}
    for name, t in stored.items():
        if name + _SCALE in stored:
            t = _whole(name, t, stored[name + _SCALE].item())
        if not name.endswith(_SCALE):
            tensors[name] = t.to(device)
    return tensors


def _whole(name: str, t: Tensor, multiplier: float) -> Tensor:
    values, scale = t.numpy(), np.float32(1) / np.float32(multiplier or np.nan)
    if not np.isfinite(scale):
        raise FormatError(f"tensor {name!r} has the multiplier {multiplier}")
    normal = np.finfo(np.float16).tiny <= abs(scale) <= np.finfo(np.float16).max
    if t.dtype is not int8 or t.ndim != 2 or t.shape[1] % q8_0.block or not normal:
        values_there = tensor(values.astype(np.float32) * scale)
        return values_there if _TABLE in name or t.ndim != 2 else values_there.t()
    blocks = np.empty((values.size // q8_0.block, 2 + q8_0.block), np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    blocks[:, 2:] = values.reshape(-1, q8_0.block).view(np.uint8)
    return Tensor.from_buffer(blocks.reshape(-1), q8_0, t.shape)
