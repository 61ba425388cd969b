"""Writing GGUF, version 3: metadata, then tensors one after another, in one file or several.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file appears once it is complete. Parts
are named and marked as llama.cpp's gguf-split does it.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import brief
from rushlight.core.basis.files.replacing import replacing
from rushlight.core.io.weights.gguf import ALIGNMENT, ARRAY, MAGIC, MAX_DIMS, NUMBERS, STRING
from rushlight.core.io.weights.source import Bytes
from rushlight.core.tensor.tensor import Tensor

VERSION = 3
_DEFAULT_ALIGNMENT = 32
_LONGEST_NAME = 63  # ggml reads no longer one
_KINDS = {np.dtype(form): kind for kind, form in NUMBERS.items()}

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor to write; `pieces()` gives its bytes in order, a piece at a time."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    pieces: Callable[[], Iterable[Bytes]]

    @property
    def nbytes(self) -> int:
        """The bytes that the tensor takes, without padding."""
        return self.dtype.nbytes(math.prod(self.shape))


def save_gguf(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write tensors by name, and metadata, to a GGUF file; quantized tensors keep their blocks.

    metadata: as for `write_gguf`. Raises TypeError for values that are not tensors, ValueError for
    a name or a dtype that the format does not support, FileExistsError unless `overwrite`.

    `path` is the file, which appears when it is complete.
    """
    rows = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"save_gguf: {name!r} is a {type(tensor).__name__}, not a Tensor")
        rows.append(Row(name, tensor.dtype, tensor.shape, lambda t=tensor: [t.raw_bytes()]))  # type: ignore[misc]
    write_gguf(path, metadata or {}, rows, overwrite=overwrite)


def write_gguf(
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    rows: Sequence[Row],
    *,
    overwrite: bool = False,
    split_max_size: int | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a GGUF file, or several; returns their paths.

    metadata: str, bool, int (as 32 bits where they suffice), float (as float32), NumPy numbers (as
    their type), one-dimensional arrays of them, and lists. split_max_size: the most bytes of
    tensors in a file; a larger model is written as NAME-00001-of-0000N.gguf and so on. Memory is
    that of the rows' pieces. The files appear when all are complete, and none does otherwise.
    progress(done, total) counts bytes. Raises TypeError for a value without a type in GGUF,
    ValueError for a name, shape or dtype that GGUF does not support, FileExistsError unless
    `overwrite`.

    `path` is the file; `rows` are the tensors; `overwrite` replaces it; `progress(done, total)`
    counts bytes.
    """
    alignment = _alignment(metadata)
    _check_rows(rows)
    parts = _split(rows, alignment, split_max_size)
    places = _names(Path(path), len(parts))
    headers = [
        _header(_own_metadata(metadata, number, len(parts), len(rows)), part_rows, alignment)
        for number, part_rows in enumerate(parts)
    ]
    _refuse_to_replace(places, overwrite)
    report = _Report(progress, sum(row.nbytes for row in rows))
    with contextlib.ExitStack() as opened:  # all files appear at its end, or none
        for place, header, part_rows in zip(places, headers, parts, strict=True):
            file = opened.enter_context(replacing(place, sync=True))
            file.write(header)
            for row in part_rows:
                _write_row(file, row, alignment, report)
        _refuse_to_replace(places, overwrite)
    _sync_folder(places[0].parent)
    return places


class _Report:
    """Adds up what has been written."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.done, self.total = progress, 0, total

    def add(self, n: int) -> None:
        self.done += n
        if self.progress is not None:
            self.progress(self.done, self.total)


def _write_row(file: BinaryIO, row: Row, alignment: int, report: _Report) -> None:
    written = 0
    for piece in row.pieces():
        file.write(piece)
        written += memoryview(piece).nbytes
        report.add(memoryview(piece).nbytes)
    if written != row.nbytes:
        raise ValueError(
            f"tensor {row.name!r} of shape {row.shape} has {written} bytes, not {row.nbytes}"
        )
    file.write(bytes(-written % alignment))


def _refuse_to_replace(places: Sequence[Path], overwrite: bool) -> None:
    for place in places:
        if place.is_dir():
            raise IsADirectoryError(f"{place} is a folder; name a file in it")
        if not overwrite and place.exists():
            raise FileExistsError(
                f"{place} exists already\n  hint: name another file, or overwrite it"
            )


def _sync_folder(folder: Path) -> None:
    """Make the new names last through a loss of power, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- parts -------------------------------------------------------------------------------------


def _split(rows: Sequence[Row], alignment: int, most: int | None) -> list[list[Row]]:
    """The rows of each file: as many as fit `most` bytes with their padding, at least one."""
    if most is not None and most < 1:
        raise ValueError(f"split_max_size is {most}; it must be a positive number of bytes")
    parts: list[list[Row]] = [[]]
    size = 0
    for row in rows:
        padded = row.nbytes + -row.nbytes % alignment
        if most is not None and parts[-1] and size + padded > most:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += padded
    return parts


def _names(path: Path, count: int) -> list[Path]:
    if count == 1:
        return [path]
    stem = path.name.removesuffix(".gguf")
    return [path.with_name(f"{stem}-{i + 1:05}-of-{count:05}.gguf") for i in range(count)]


def _own_metadata(
    metadata: Mapping[str, Any], number: int, parts: int, tensors: int
) -> dict[str, Any]:
    """The metadata of one part: the first has all of it."""
    kept_keys = {key: value for key, value in metadata.items() if not key.startswith("split.")}
    if parts == 1:
        return kept_keys
    if number:
        kept_keys = {key: value for key, value in kept_keys.items() if key == ALIGNMENT}
    return kept_keys | {
        "split.no": np.uint16(number),
        "split.count": np.uint16(parts),
        "split.tensors.count": np.int32(tensors),
    }


# --- the header ----------------------------------------------------------------------------------


def _alignment(metadata: Mapping[str, Any]) -> int:
    value = metadata.get(ALIGNMENT, _DEFAULT_ALIGNMENT)
    if isinstance(value, bool) or not isinstance(value, int | np.uint32):
        raise TypeError(f"{ALIGNMENT} is {brief(value)}, not a number of 32 bits")
    if int(value).bit_count() != 1 or int(value) < 0:
        raise ValueError(f"{ALIGNMENT} is {value}, not a power of two")
    return int(value)


def _check_rows(rows: Sequence[Row]) -> None:
    names = set()
    for row in rows:
        if row.name in names:
            raise ValueError(f"two tensors are named {row.name!r:.100}")
        names.add(row.name)
        if len(_encoded(row.name)) > _LONGEST_NAME:
            raise ValueError(
                f"the tensor's name {row.name!r:.100} has more than {_LONGEST_NAME} bytes, the "
                "most that GGUF files may have"
            )
        if row.dtype.gguf is None:
            how = "convert it with .to()"
            raise ValueError(f"tensor {row.name!r}: GGUF does not support {row.dtype.name}; {how}")
        if len(row.shape) > MAX_DIMS:
            raise ValueError(
                f"tensor {row.name!r} of shape {row.shape} has more than {MAX_DIMS} dims"
            )


def _header(metadata: Mapping[str, Any], rows: Sequence[Row], alignment: int) -> bytes:
    out = bytearray(struct.pack("<4sIQQ", MAGIC, VERSION, len(rows), len(metadata)))
    for key, value in metadata.items():
        out += _text(key) + _pair(key, value)
    offset = 0
    for row in rows:
        dims = row.shape[::-1]
        out += _text(row.name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        out += struct.pack("<IQ", row.dtype.gguf, offset)
        offset += row.nbytes + -row.nbytes % alignment
    return bytes(out + bytes(-len(out) % alignment))


def _encoded(text: str) -> bytes:
    # A reader keeps bytes that are not UTF-8 as halves of surrogate pairs.
    return text.encode("utf-8", "surrogateescape")


def _text(text: str) -> bytes:
    raw = _encoded(text)
    return struct.pack("<Q", len(raw)) + raw


def _pair(key: str, value: Any) -> bytes:
    """The value's type and its bytes."""
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    if isinstance(value, list | tuple | np.ndarray):
        return struct.pack("<I", ARRAY) + b"".join(_array(key, value))
    number = _number(key, value)
    return struct.pack("<I", _KINDS[number.dtype]) + number.tobytes()


def _number(key: str, value: Any) -> np.generic:
    if isinstance(value, np.generic) and value.dtype.newbyteorder("<") in _KINDS:
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, float):
        return np.float32(value)
    if isinstance(value, int):
        for kind in (np.uint32, np.int32, np.uint64, np.int64):
            if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
                return kind(value)
    raise TypeError(
        f"the metadata's {key!r:.100} is {brief(value)}; GGUF has text, bools, numbers of up to 64 "
        "bits, and lists of them"
    )


def _array(key: str, values: Sequence[Any] | np.ndarray[Any, Any]) -> Iterator[bytes]:
    """An array's type, length and values."""
    if isinstance(values, np.ndarray):
        form = values.dtype.newbyteorder("<")
        if values.ndim != 1 or form not in _KINDS:
            raise TypeError(
                f"the metadata's {key!r:.100} is an array of {values.dtype} of shape "
                f"{values.shape}; GGUF has arrays of one dim of bools and numbers"
            )
        yield struct.pack("<IQ", _KINDS[form], len(values))
        yield values.astype(form).tobytes()
    elif all(isinstance(value, str) for value in values):
        yield struct.pack("<IQ", STRING, len(values))
        yield from map(_text, values)
    elif all(isinstance(value, list | tuple | np.ndarray) for value in values):
        yield struct.pack("<IQ", ARRAY, len(values))
        for value in values:
            yield from _array(key, value)
    else:
        numbers = [_number(key, value) for value in values]
        forms = {number.dtype for number in numbers}
        # Token types and the like are int32 in llama.cpp's files.
        small = forms <= {np.dtype(np.uint32), np.dtype(np.int32)}
        if small and all(int(number) < 1 << 31 for number in numbers):
            forms = {np.dtype(np.int32)}
        if len(forms) != 1:
            raise TypeError(f"the metadata's {key!r:.100} mixes values of several types")
        yield from _array(key, np.array(numbers, forms.pop()))
