"""Importance matrices: of each weight's columns the mean square of what they are multiplied by.

llama.cpp writes them in two formats. In the older (.dat) each entry is a name and sums; in the
newer a GGUF file has tensors NAME.in_sum2 and NAME.counts (tools/imatrix of llama.cpp).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.files.replacing import write_whole
from rushlight.core.io.weights.gguf import MAGIC, read_gguf
from rushlight.core.io.weights.gguf_writer import Row, write_gguf
from rushlight.core.io.weights.source import Source, open_source
from rushlight.core.io.weights.table import Entry

Array = npt.NDArray[Any]

_SUMS, _COUNTS = ".in_sum2", ".counts"
_MOST_ENTRIES = 1 << 16
_LONGEST_NAME = 1 << 12


def read_imatrix(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The importance of each column by the tensor's name in GGUF, float32, from either format.

    An entry is (columns,), or (experts, columns) where a GGUF file has several matrices; the older
    format has experts one after another in (experts * columns,). A matrix that met no token has
    ones. Raises FormatError for another file, for a damaged one, and for a value that is negative
    or not finite.
    """
    source = open_source(path)
    try:
        first = bytes(source.read(0, 4))
        importance = _read_gguf(source) if first == MAGIC else _read_legacy(source)
    finally:
        source.close()
    for name, values in importance.items():
        if not (np.isfinite(values) & (values >= 0)).all():
            raise FormatError(
                f"{source.name}: the importance of {name!r:.100} has a value that is negative or "
                "not finite"
            )
    return importance


def write_imatrix(
    path: str | os.PathLike[str],
    sums: Mapping[str, Array],
    counts: Mapping[str, int | Array],
    chunks: int,
    *,
    chunk_size: int = 512,
    datasets: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Write an importance matrix as GGUF, which llama.cpp reads too.

    sums: by the weight's name in GGUF the sums of squares, (columns,) or (experts, columns).
    counts: the number of tokens in each sum, one or (experts,). chunks: how many texts of
    chunk_size tokens were read. datasets: names of the texts. Raises ValueError where sums and
    counts do not fit each other, FileExistsError unless `overwrite`.

    `path` is the file, which `overwrite` lets be replaced.
    """
    rows = []
    for name in sorted(sums):
        values = np.ascontiguousarray(sums[name], np.float32)
        matrices = np.atleast_2d(values)
        numbers = np.ascontiguousarray(np.atleast_1d(counts.get(name, ())), np.float32)
        if values.ndim not in (1, 2) or numbers.shape != matrices.shape[:1]:
            raise ValueError(
                f"write_imatrix: {name!r} has sums of shape {values.shape} and counts of shape "
                f"{numbers.shape}; sums are (columns,) with one count or (experts, columns) with "
                "one for each expert"
            )
        rows.append(_row(name + _SUMS, matrices))
        rows.append(_row(name + _COUNTS, numbers[:, None]))
    metadata = {
        "general.type": "imatrix",
        "imatrix.datasets": list(datasets),
        "imatrix.chunk_count": np.uint32(chunks),
        "imatrix.chunk_size": np.uint32(chunk_size),
    }
    write_gguf(path, metadata, rows, overwrite=overwrite)


def write_legacy_imatrix(
    path: str | os.PathLike[str],
    sums: Mapping[str, Array],
    counts: Mapping[str, Array],
    chunks: int,
    *,
    dataset: str = "",
    overwrite: bool = False,
) -> None:
    """Write the older format: as `write_imatrix`, with (experts, columns) one after another.

    It has one count for each entry, so each expert's sums are scaled to `chunks`; experts that met
    no token get ones. Source: llama.cpp's IMatrixCollector::save_imatrix_legacy.

    `path`, `counts`, `overwrite` and what it raises are as there; `dataset` is the text's name.
    """
    out = [struct.pack("<i", len(sums))]
    for name in sorted(sums):
        seen = np.reshape(counts[name], (-1, 1))
        means = np.where(seen > 0, np.atleast_2d(sums[name]) / np.where(seen > 0, seen, 1), 1)
        raw, values = name.encode(), (means * chunks).astype("<f4").reshape(-1)
        out.append(struct.pack("<i", len(raw)) + raw)
        out.append(struct.pack("<ii", chunks, values.size) + values.tobytes())
    raw = dataset.encode()
    out.append(struct.pack("<ii", chunks, len(raw)) + raw)
    place = Path(path)
    if place.exists() and not overwrite:
        raise FileExistsError(f"{place} exists already\n  hint: name another file, or overwrite it")
    write_whole(place, b"".join(out))


def _row(name: str, values: Array) -> Row:
    return Row(name, float32, values.shape, lambda: [values.tobytes()])


def _read_gguf(source: Source) -> dict[str, Array]:
    table = read_gguf(source).table.entries
    importance: dict[str, Array] = {}
    for name, entry in table.items():
        if not name.endswith(_SUMS):
            continue
        base = name.removesuffix(_SUMS)
        if base + _COUNTS not in table:
            raise FormatError(f"{source.name} has {name!r:.100} and no counts of it")
        sums, counts = _floats(source, entry), _floats(source, table[base + _COUNTS])
        if not counts.size or sums.size % counts.size:
            raise FormatError(
                f"{source.name}: {name!r:.100} has {sums.size} sums, which {counts.size} counts "
                "do not divide"
            )
        each = sums.reshape(counts.size, -1)
        seen = counts.reshape(-1, 1) > 0
        means = np.where(seen, each / np.where(seen, counts.reshape(-1, 1), 1), np.float32(1))
        importance[base] = means[0] if len(means) == 1 else means
    if not importance:
        raise FormatError(
            f"{source.name} is a GGUF file without {_SUMS} tensors, so it is no importance matrix"
        )
    return importance


def _floats(source: Source, entry: Entry) -> Array:
    if entry.dtype is not float32:
        raise FormatError(f"{source.name}: {entry.name!r:.100} is {entry.dtype.name}, not float32")
    return np.frombuffer(source.read(entry.offset, entry.nbytes), np.float32)


def _read_legacy(source: Source) -> dict[str, Array]:
    """A count of entries; each: name, number of calls, number of values, sums per call."""
    offset = 0

    def take(n: int) -> bytes:
        nonlocal offset
        if n > source.size - offset:
            raise FormatError(
                f"{source.name} is no importance matrix: {n} bytes at {offset} lie past the end of "
                f"a file of {source.size}",
                hint="llama-imatrix and `rushlight imatrix` write them",
            )
        offset += n
        return bytes(source.read(offset - n, n))

    def number(what: str, most: int) -> int:
        value: int = struct.unpack("<i", take(4))[0]
        if not 1 <= value <= most:
            raise FormatError(f"{source.name} is no importance matrix: its {what} is {value}")
        return value

    importance: dict[str, Array] = {}
    for _ in range(number("number of entries", _MOST_ENTRIES)):
        raw = take(number("length of a name", _LONGEST_NAME))
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            raise FormatError(f"{source.name}: the name {raw[:40]!r} is not UTF-8") from None
        calls: int = struct.unpack("<i", take(4))[0]
        count = number("number of values", (1 << 31) - 1)
        sums = np.frombuffer(take(4 * count), "<f4")
        importance[name] = sums / np.float32(calls) if calls > 0 else sums.copy()
    return importance
