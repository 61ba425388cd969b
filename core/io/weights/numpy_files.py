"""NumPy's .npy and .npz files: arrays of numbers, in either order of bytes and of dims.

Arrays of texts and times in an .npz are read as NumPy's own; of objects and records the names are
told.

The format is that of numpy.lib.format, versions 1 to 3. Its header is a Python literal; a pattern
reads it, and arrays of objects, which need a pickle, are refused.
"""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import MOST_ELEMENTS, Layout, count_elements
from rushlight.core.io.weights.load_schedule import LoadStep, destination_for, run_schedule
from rushlight.core.io.weights.source import BytesSource, Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.io.weights.zips import Member, inflate, located, located_all, read_zip
from rushlight.core.tensor.tensor import Tensor

_LOG = logging.getLogger(__name__)

MAGIC = b"\x93NUMPY"
MAX_DIMS = 32
_MAX_HEADER = 1 << 16
_USUAL = 256  # bytes that most headers fit in
_KEYS = "descr", "fortran_order", "shape"
_PAIR = rb"\s*'(descr|fortran_order|shape)'\s*:\s*('[^'\\]*'|True|False|\([\d\s,]*\))\s*"
_HEADER = re.compile(rb"\{(?:%b,){2}%b,?\s*\}\s*" % (_PAIR, _PAIR))
_NUMBERS = re.compile(r"([<>=|])([biufc])(\d{1,2})")


_TEXTS = re.compile(r"[<>=|](?:[US]\d{1,6}|[Mm]8(?:\[\d{0,4}[a-zA-Z]{1,2}\])?)")  # and times


@dataclass(frozen=True, slots=True)
class _Texts:
    """What a header says of texts or times, and where their bytes begin; None for objects."""

    dtype: np.dtype[Any] | None
    shape: tuple[int, ...] = ()
    fortran: bool = False
    begin: int = 0

    def read(self, source: Source, offset: int) -> np.ndarray[Any, Any]:
        """The array whose file begins at `offset` of the source."""
        assert self.dtype is not None
        raw = bytes(source.read(offset + self.begin, math.prod(self.shape) * self.dtype.itemsize))
        order: Any = "F" if self.fortran else "C"
        return np.frombuffer(raw, self.dtype).reshape(self.shape, order=order).copy()


@dataclass(frozen=True, slots=True)
class _Array:
    """What a header says, and where the array's bytes begin."""

    dtype: DType
    shape: tuple[int, ...]
    swapped: bool
    fortran: bool
    begin: int

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(math.prod(self.shape))


def _header(name: str, raw: bytes, size: int) -> _Array:
    """The checked header of an array of `size` bytes in all, whose first bytes are `raw`."""
    if len(raw) < 12 or raw[:6] != MAGIC or raw[6] not in (1, 2, 3):
        raise FormatError(f"{name} is not an .npy array: it begins with {raw[:8]!r}")
    wide = 2 if raw[6] == 1 else 4
    length = int.from_bytes(raw[8 : 8 + wide], "little")
    begin = 8 + wide + length
    text = raw[8 + wide : begin]
    if length > _MAX_HEADER or len(text) != length:
        raise FormatError(f"{name}: a header of {length} bytes does not fit a file of {size}")
    pairs = {k.decode(): v.decode("latin-1") for k, v in re.findall(_PAIR, text)}
    if _HEADER.fullmatch(text) is None or set(pairs) != set(_KEYS):
        raise FormatError(
            f"{name}: the header is {text[:200]!r}, which is not that of an array of numbers",
            hint="arrays of records are not supported",
        )
    order, dtype = _dtype(name, pairs["descr"].strip("'"))
    shape = tuple(int(f"{n:.20}") for n in re.findall(r"\d+", pairs["shape"]))
    if pairs["fortran_order"][0] not in "TF" or pairs["shape"][0] != "(":
        raise FormatError(f"{name}: the header is {text[:200]!r}")
    if len(shape) > MAX_DIMS or count_elements(shape) > MOST_ELEMENTS:
        raise FormatError(f"{name}: an array of shape {str(shape):.200} is too large")
    swapped = order != {"little": "<", "big": ">"}[sys.byteorder] and order in "<>"
    array = _Array(dtype, shape, swapped, pairs["fortran_order"] == "True", begin)
    if array.nbytes > size - begin:
        raise FormatError(
            f"{name}: {dtype.name} of shape {shape} takes {array.nbytes} bytes, the file has "
            f"{size - begin}",
            hint="the end of the file is missing; fetch or save it again",
        )
    return array


def _texts(raw: bytes, size: int) -> _Texts | None:
    """What the first bytes of an array's file say if it holds texts, times or objects."""
    wide = 2 if raw[6:7] == b"\1" else 4
    begin = 8 + wide + int.from_bytes(raw[8 : 8 + wide], "little")
    text = raw[8 + wide : begin]
    if raw[:6] != MAGIC or not text:
        return None
    if text.startswith(b"{'descr': ["):
        return _Texts(None)
    pairs = {k.decode(): v.decode("latin-1") for k, v in re.findall(_PAIR, text)}
    if _HEADER.fullmatch(text) is None or set(pairs) != set(_KEYS):
        return None
    descr = pairs["descr"].strip("'")
    if descr == "|O":
        return _Texts(None)
    shape = tuple(int(f"{n:.20}") for n in re.findall(r"\d+", pairs["shape"]))
    if not _TEXTS.fullmatch(descr) or len(shape) > MAX_DIMS:
        return None
    try:
        dtype = np.dtype(descr)
    except TypeError:  # a unit of time that there is not
        return None
    fits = dtype.itemsize and math.prod(shape) * dtype.itemsize <= size - begin
    return _Texts(dtype, shape, pairs["fortran_order"] == "True", begin) if fits else None


def _dtype(name: str, descr: str) -> tuple[str, DType]:
    """The order of bytes and the dtype that a header names."""
    parts = _NUMBERS.fullmatch(descr)
    try:
        if parts is None:
            raise TypeError
        return parts[1], as_dtype(np.dtype(parts[2] + parts[3]))
    except TypeError:
        objects = descr.lstrip("<>=|") == "O"
        raise FormatError(
            f"{name}: arrays of {descr[:40]!r} are not supported",
            hint="objects would need a pickle, which could run code"
            if objects
            else "supported: bool, integers to 64 bits, floats, complex",
        ) from None


def _tensor(name: str, source: Source, offset: int, array: _Array) -> Tensor:
    """The array whose file begins at `offset` of the source."""
    shape = array.shape[::-1] if array.fortran else array.shape
    way = "heap" if array.swapped else destination_for(source)
    begin = offset + array.begin
    step = LoadStep(0, begin, array.nbytes, name, array.dtype, shape, way, array.swapped)
    ((_, stored),) = run_schedule([step], [source])
    if not array.fortran:
        return stored
    turned = Layout.contiguous(shape).permute(range(len(shape))[::-1])
    return Tensor(stored.storage, stored.dtype, turned)


def load_npy(source: Source, device: str = "cpu") -> Any:
    """The array of an .npy file; a view of a mapped file, with its order of dims.

    Texts and times stay NumPy's arrays.

    Raises FormatError for a file that does not follow the format, and for dtypes that are not
    supported.
    """
    raw = bytes(source.read(0, 12 + _MAX_HEADER))
    texts = _texts(raw, source.size)
    if texts is not None and texts.dtype is not None:
        return texts.read(source, 0)
    array = _header(source.name, raw, source.size)
    return _tensor(source.name, source, 0, array).to(device)


def arrays(
    source: Source, lazily: bool = False, texts: dict[str, tuple[Member, _Texts]] | None = None
) -> Iterator[tuple[str, Member, _Array]]:
    """Name, member and header of each array of `source`.

    lazily: members stand as `read_zip` gives them. texts: takes what holds no numbers, which
    raises FormatError without it, as a damaged header does.
    """
    members = {n: m for n, m in read_zip(source).items() if n.endswith(".npy")}
    if not members:
        raise FormatError(f"{source.name} is a zip without an .npy array")
    if not lazily:
        members = located_all(source, members.values())
    for name, member in members.items():
        where, most = f"{source.name}: {name!r:.100}", 12 + _MAX_HEADER
        placed = located(source, member) if lazily else member
        if placed.deflated:
            raw = bytes(inflate(source, placed, most))
        else:
            raw = bytes(source.read(placed.offset, min(_USUAL, placed.nbytes)))
            if (length := 12 + int.from_bytes(raw[8:10], "little")) > len(raw):
                raw = bytes(source.read(placed.offset, min(length, most, placed.nbytes)))
        other = None if texts is None else _texts(raw, member.nbytes)
        if texts is not None and other is not None:
            texts[name.removesuffix(".npy")] = member, other
            continue
        yield name.removesuffix(".npy"), member, _header(where, raw, member.nbytes)


def load_npz(source: Source, device: str = "cpu") -> dict[str, Any]:
    """The arrays of an .npz file by name; views of a mapped file where they are not compressed.

    Texts and times stay NumPy's arrays. Objects and records are left out and named in the log.
    Raises FormatError as `load_npy` does, and for an archive that would unpack to more than 64
    times its bytes (and 64 MB).
    """

    def inside(name: str, member: Member) -> tuple[Source, int]:
        if member.deflated:
            return BytesSource(inflate(source, member), f"{source.name}: {name:.100}"), 0
        return source, member.offset

    values: dict[str, Any] = {}
    texts: dict[str, tuple[Member, _Texts]] = {}
    for name, member, array in arrays(source, texts=texts):
        values[name] = _tensor(name, *inside(name, member), array).to(device)
    left_out = [name for name, (_, text) in texts.items() if text.dtype is None]
    if left_out and len(left_out) == len(texts) and not values:
        list(arrays(source))  # raises, and says why
    if left_out:
        _LOG.warning("%s: left out, as objects and records: %.200r", source.name, left_out)
    for name, (member, text) in texts.items():
        if text.dtype is not None:
            values[name] = text.read(*inside(name, member))
    return values


def read_npy_table(source: Source) -> Table:
    """The table of an .npy or .npz file; of a compressed array, `offset` is that of its member."""
    if bytes(source.read(0, 6)) == MAGIC:
        array = _header(source.name, bytes(source.read(0, 12 + _MAX_HEADER)), source.size)
        return table_of([("", 0, array)])
    rows = arrays(source, texts={})
    return table_of((name, member.offset, array) for name, member, array in rows)


def table_of(rows: Iterable[tuple[str, int, _Array]]) -> Table:
    """The table of arrays by name, place and header."""
    return Table(
        {
            name: Entry(name, a.dtype, a.shape, offset + a.begin, a.nbytes, a.swapped)
            for name, offset, a in rows
        }
    )
