"""The GGUF format, versions 1 to 3: metadata, and a table of tensors, quantized ones as stored.

A file is a magic, counts, key-value pairs, one row per tensor, and aligned data:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Version 1 has lengths of 32 bits. A file
is big-endian if its version is; then so are its tensors. Every length is checked against the source
before anything is allocated for it.
"""

from __future__ import annotations

import math
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DTYPES
from rushlight.core.basis.errors import FormatError, nearest
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.io.weights.byteorder import check_swappable
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.shards import split_parts
from rushlight.core.io.weights.source import Source, open_source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.tensor import Tensor

MAGIC = b"GGUF"
MAX_DIMS = 4
MAX_HEADER = 1 << 28
_WINDOW = 1 << 20
_DEPTH = 4  # the deepest nesting of arrays
# Above any published file. They bound the time and the memory of a file whose bytes cost nothing.
_MOST_KEYS = _MOST_TENSORS = _MOST_ARRAYS = 1 << 16
_MOST_TEXTS = 1 << 23

# The tensor types of the dtype table by ggml's numbers, and names of types that ggml removed.
TYPES = {dtype.gguf: dtype for dtype in DTYPES.values() if dtype.gguf is not None}
_REMOVED = {
    4: "q4_2",
    5: "q4_3",
    31: "q4_0_4_4",
    32: "q4_0_4_8",
    33: "q4_0_8_8",
    36: "iq4_nl_4_4",
    37: "iq4_nl_4_8",
    38: "iq4_nl_8_8",
}
# Metadata value types with a fixed size, as NumPy reads them.
NUMBERS = {
    0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "b1", 10: "u8", 11: "i8",
    12: "f8",
}  # fmt: skip
_UINT32, STRING, ARRAY = 4, 8, 9
ALIGNMENT = "general.alignment"
_SPLIT = tuple(f"split.{key}" for key in ("no", "count", "tensors.count"))


class TruncatedError(FormatError):
    """The source ends within the header."""


@dataclass(frozen=True, slots=True)
class Gguf:
    """A file's metadata (numbers, strings, lists and NumPy arrays by key) and its tensors.

    An entry's shape is in row-major order, the reverse of the file's. `header` is the offset of the
    tensors' bytes. `kinds` has the file's numbers of the value types.
    """

    metadata: dict[str, Any]
    table: Table
    header: int
    kinds: dict[str, int] = field(default_factory=dict)

    def typed(self) -> dict[str, Any]:
        """The metadata with NumPy's numbers: what `write_gguf` writes as this file has it."""
        return {
            key: np.dtype(NUMBERS[kind]).type(value) if kind in NUMBERS else value
            for key, value in self.metadata.items()
            for kind in (self.kinds[key],)
        }


class _Cursor:
    """Reads a source from front to back, in windows."""

    def __init__(self, source: Source) -> None:
        self.source, self.at = source, 0
        self.window = b""
        self.begin = 0
        self.order, self.length = "<", "Q"  # of bytes, and the format of lengths and counts
        self.arrays = self.strings = 0
        # Vocabularies repeat their shortest words.
        self.short: dict[bytes, str] = {}

    def need(self, n: int) -> int:
        """Load the next `n` bytes into the window; returns their position in it."""
        if n > self.source.size - self.at:
            raise TruncatedError(
                f"{self.source.name}: {n} bytes at {self.at} lie past the end of a file of "
                f"{self.source.size}"
            )
        if self.at + n > MAX_HEADER:
            raise FormatError(f"{self.source.name}: the header is longer than {MAX_HEADER} bytes")
        start = self.at - self.begin
        if start + n > len(self.window):
            self.window = bytes(self.source.read(self.at, max(n, _WINDOW)))
            self.begin, start = self.at, 0
            if len(self.window) < n:
                raise TruncatedError(
                    f"{self.source.name} ends at byte {self.at + len(self.window)}, in its header"
                )
        return start

    def take(self, n: int) -> bytes:
        """The next `n` bytes."""
        start = self.need(n)
        self.at += n
        return self.window[start : start + n]

    def number(self, form: str) -> Any:
        """One number in struct's notation."""
        form = self.order + form
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self) -> int:
        """A length or a count."""
        return int(self.number(self.length))

    def numbers(self, kind: int, count: int) -> np.ndarray[Any, Any]:
        """`count` numbers of a kind of `NUMBERS`."""
        native = np.dtype(NUMBERS[kind])
        form = np.dtype(self.order + NUMBERS[kind])
        numbers = np.frombuffer(self.take(count * form.itemsize), form)
        return numbers.astype(native, copy=False)

    def text(self) -> str:
        """A string: its length in bytes, then UTF-8."""
        return _decoded(self.take(self.count()))

    def name(self, what: str) -> str:
        """A name, which must be UTF-8."""
        raw = self.take(self.count())
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise FormatError(
                f"{self.source.name}: the name of a {what}, {raw[:40]!r}, is not UTF-8"
            ) from None

    def texts(self, count: int) -> list[str]:
        """`count` strings, in a tight loop over each window, as there may be a million."""
        texts: list[str] = []
        form = struct.Struct(self.order + self.length)
        length, size, short = form.unpack_from, form.size, self.short
        while len(texts) < count:
            start = self.need(size)
            self.need(size + length(self.window, start)[0])
            start, window = self.at - self.begin, self.window
            last = len(window) - size
            while start <= last and len(texts) < count:
                end = start + size + length(window, start)[0]
                if end > len(window):
                    break
                raw = window[start + size : end]
                start = end
                if len(raw) > 2:
                    texts.append(_decoded(raw))
                    continue
                # At most 65,793 objects, however often the file has them.
                if raw not in short:
                    short[raw] = _decoded(raw)
                texts.append(short[raw])
            self.at = self.begin + start
        return texts


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        # Vocabularies hold parts of characters, whose bytes must be kept.
        return raw.decode("utf-8", "surrogateescape")


def read_gguf(source: Source) -> Gguf:
    """Metadata and table of a GGUF file; does not read the tensors.

    Raises FormatError, with the key or tensor and the value, for a file that does not follow the
    format or holds a tensor type that is not supported.
    """
    cursor = _Cursor(source)
    if source.size < 24 or bytes(cursor.take(4)) != MAGIC:
        raise FormatError(f"{source.name} is not a GGUF file: it does not begin with GGUF")
    version = cursor.number("I")
    if version in (1 << 24, 2 << 24, 3 << 24):
        cursor.order, version = ">", version >> 24
    if version not in (1, 2, 3):
        raise FormatError(
            f"{source.name}: GGUF version {version} is not supported; supported: 1, 2, 3"
        )
    cursor.length = "I" if version == 1 else "Q"
    tensors, pairs = cursor.count(), cursor.count()
    if tensors * (20 if version == 1 else 24) + pairs * (9 if version == 1 else 13) > source.size:
        raise TruncatedError(
            f"{source.name}: {tensors} tensors and {pairs} keys cannot be in {source.size} bytes"
        )
    _at_most(source, "tensors", tensors, _MOST_TENSORS)
    _at_most(source, "keys", pairs, _MOST_KEYS)
    metadata: dict[str, Any] = {}
    kinds: dict[str, int] = {}
    for _ in range(pairs):
        key = cursor.name("key")
        if key in metadata:
            raise FormatError(f"{source.name}: key {key!r:.100} occurs twice")
        kind = cursor.number("I")
        if key == ALIGNMENT and kind != _UINT32:
            raise FormatError(f"{source.name}: {key} has a value of type {kind}, not uint32")
        metadata[key], kinds[key] = _value(cursor, kind, key, 0), kind
    rows = [_row(cursor) for _ in range(tensors)]
    alignment = metadata.get(ALIGNMENT, 32)
    if alignment.bit_count() != 1:
        raise FormatError(f"{source.name}: {ALIGNMENT} is {alignment}, not a power of two")
    base = -(-cursor.at // alignment) * alignment
    swapped = (cursor.order == "<") != (sys.byteorder == "little")
    return Gguf(metadata, _table(source, rows, base, alignment, swapped), base, kinds)


def _at_most(source: Source, what: str, count: int, most: int) -> None:
    if count > most:
        raise FormatError(f"{source.name} has {count} {what}; at most {most} are supported")


def _value(cursor: _Cursor, kind: int, key: str, depth: int) -> Any:
    if kind == STRING:
        return cursor.text()
    if kind in NUMBERS:
        return cursor.numbers(kind, 1)[0].item()
    if kind != ARRAY:
        raise FormatError(f"{cursor.source.name}: key {key!r:.100} has a value of type {kind}")
    inner, count = cursor.number("I"), cursor.count()
    cursor.arrays += 1
    _at_most(cursor.source, "arrays in its metadata", cursor.arrays, _MOST_ARRAYS)
    if inner in NUMBERS:
        return cursor.numbers(inner, count)
    if count * (4 if cursor.length == "I" else 8) > cursor.source.size - cursor.at:
        raise TruncatedError(f"{cursor.source.name}: key {key!r:.100} says it has {count} values")
    if inner == STRING:
        cursor.strings += count
        _at_most(cursor.source, "strings in its metadata", cursor.strings, _MOST_TEXTS)
        return cursor.texts(count)
    if depth == _DEPTH:
        raise FormatError(f"{cursor.source.name}: key {key!r:.100} nests too deep")
    return [_value(cursor, inner, key, depth + 1) for _ in range(count)]


def _row(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape (rows first), type number and offset of one tensor."""
    name, dims = cursor.name("tensor"), cursor.number("I")
    if dims > MAX_DIMS:
        raise FormatError(f"{cursor.source.name}: tensor {name!r:.100} has {dims} dims")
    shape = tuple(cursor.count() for _ in range(dims))[::-1]
    return name, shape, cursor.number("I"), cursor.number("Q")


def _table(
    source: Source,
    rows: list[tuple[str, tuple[int, ...], int, int]],
    base: int,
    alignment: int,
    swapped: bool,
) -> Table:
    entries: dict[str, Entry] = {}
    for name, shape, kind, offset in rows:
        where = f"{source.name}: tensor {name!r:.100}"
        if name in entries:
            raise FormatError(f"{where} occurs twice")
        if kind not in TYPES:
            raise FormatError(f"{where}: {unknown_type(kind)}")
        if count_elements(shape) > MOST_ELEMENTS:
            raise FormatError(f"{where} of shape {shape} is larger than any memory")
        dtype, columns = TYPES[kind], shape[-1] if shape else 1
        if columns % dtype.block:
            raise FormatError(
                f"{where} of shape {shape}: {columns} columns are not a whole number of "
                f"{dtype.name} blocks of {dtype.block}"
            )
        nbytes = math.prod(shape) // dtype.block * dtype.itemsize
        if offset % alignment:
            raise FormatError(
                f"{where}: {nbytes} bytes at {base + offset} do not fit an alignment of {alignment}"
            )
        if base + offset + nbytes > source.size:
            raise FormatError(
                f"{where}: {nbytes} bytes at {base + offset} do not fit a file of {source.size}",
                hint="the end of the file is missing; download it again",
            )
        if swapped:
            check_swappable(where, dtype)
        entries[name] = Entry(name, dtype, shape, base + offset, nbytes, swapped)
    ordered = sorted(entries.values(), key=lambda entry: (entry.offset, entry.nbytes))
    for before, after in pairwise(ordered):
        if before.offset + before.nbytes > after.offset:
            raise FormatError(
                f"{source.name}: tensor {after.name!r:.100} begins at byte {after.offset}, within "
                f"the {before.nbytes} bytes of {before.name!r:.100} at {before.offset}"
            )
    return Table({entry.name: entry for entry in ordered})


def unknown_type(kind: int) -> str:
    """Words for a tensor type that is not in `TYPES`: its name if ggml had it, and the nearest."""
    known = [TYPES[n].name for n in sorted(TYPES)]
    name = _REMOVED.get(kind, f"type {kind}")
    near = nearest(name, known, 2) if kind in _REMOVED else []
    most = f"nearest: {', '.join(near)}; " if near else ""
    return f"{name} is not supported; {most}supported: {', '.join(known)}"


def gguf_in(place: Path) -> Path | None:
    """`place` if it is a GGUF file, or the GGUF file in a folder without a config.json.

    Of a file that is split into parts this is the first part. Raises FormatError for a folder that
    holds several files.
    """
    if place.is_file():
        with place.open("rb") as file:
            return place if file.read(4) == MAGIC else None
    first_parts = sorted({split_parts(path.name)[0] for path in place.glob("*.gguf")})
    if not first_parts or (place / "config.json").exists():
        return None
    if len(first_parts) > 1:
        names = ", ".join(first_parts)
        raise FormatError(f"{place} holds several GGUF files: {names}", hint="pass one of them")
    return place / first_parts[0]


def open_gguf(path: str | os.PathLike[str]) -> list[tuple[Source, Gguf]]:
    """The opened file of a path or an http(s) address, or all parts of the split file it is of.

    Raises FormatError that names a missing part, and FileNotFoundError for another missing file.
    """
    parts, opened = split_parts(os.fspath(path)), []
    for place in parts:
        try:
            source = open_source(place)
        except FileNotFoundError:
            if len(parts) == 1:
                raise
            raise FormatError(f"{path}: the part {place} is missing", hint="fetch it too") from None
        opened.append((source, read_gguf(source)))
    return opened


def whole_metadata(parts: Sequence[tuple[str, Gguf]]) -> dict[str, Any]:
    """The metadata of a file from its parts, (name, part) in order: that of the first.

    Raises FormatError if parts are missing or out of order.
    """
    for number, (name, file) in enumerate(parts):
        no, count, tensors = (file.metadata.get(key) for key in _SPLIT)
        no, count = (n if type(n) is int else 0 for n in (no, count))
        if (no, max(count, 1)) != (number, len(parts)):
            raise FormatError(
                f"{name} says it is part {no + 1} of {count}, here it is {number + 1} of "
                f"{len(parts)}",
                hint="parts are found by their names, NAME-00001-of-00003.gguf",
            )
    total = sum(len(file.table.entries) for _, file in parts)
    if tensors not in (None, total):
        raise FormatError(f"{name}: the parts have {total} tensors; the file has {tensors}")
    return parts[0][1].metadata


def load_gguf(
    source: str | os.PathLike[str] | Source, device: str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors by the file's own names, metadata) of a GGUF file.

    Quantized tensors keep their blocks. On `cpu` a tensor is a view of the mapped file, or a copy
    if the file is big-endian. A path or an http(s) address of one part of a split file stands for
    all of them. Raises FormatError for a file that does not follow the format.
    """
    if isinstance(source, str | os.PathLike):
        opened = open_gguf(source)
    else:
        opened = [(source, read_gguf(source))]
    metadata = whole_metadata([(file.name, gguf) for file, gguf in opened])
    sources = [file for file, _ in opened]
    steps = load_schedule([g.table for _, g in opened], [destination_for(s) for s in sources])
    return {n: t.to(device) for n, t in run_schedule(steps, sources)}, metadata
