"""The safetensors format: a table of a file's tensors, lazy loading, and the writer.

A file is 8 bytes of header length (little-endian), a JSON header, and the tensors' bytes without
gaps: https://huggingface.co/docs/safetensors (format of 2023). The reader is at least as strict as
the reference implementation: what it accepts, both read alike. Dtypes that no tensor here has
(`basis/codec.py`) are read as float32.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rushlight.core.basis.codec import NARROW
from rushlight.core.basis.dtype import from_safetensors
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.files.replacing import replacing
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.shards import read_index, taken, weights_in
from rushlight.core.io.weights.source import UNKNOWN, Source, open_source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.tensor import Tensor

MAX_HEADER = 100_000_000
MAX_DIMS = 32  # the most dims that every NumPy supports
_MOST_TENSORS = 1 << 16  # of one file; a tensor without bytes costs a file 50 and a process 1,000
_MOST_VALUES = 1 << 27  # bytes that a header's values take, beside twice its own
_KEYS = {"dtype", "shape", "data_offsets"}
# The writer's order, as in the reference: the widest dtype first, so that all lie aligned.
_ORDER = (
    "U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16",
    "F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL",
)  # fmt: skip
# Those that tensors have, and those that are read as float32.
_KNOWN = from_safetensors | NARROW
_NAMES = {dtype: name for name, dtype in from_safetensors.items()}


def read_table(source: Source) -> Table:
    """The table of a safetensors file; reads its header only.

    Every length is checked against `source.size` before memory is allocated for it. Raises
    FormatError, with the tensor and the value, for a file that does not follow the format.
    """
    length = _header_length(source, source.read(0, 8))
    return _parse(source, source.read(8, length), length)


async def read_table_async(source: Source) -> Table:
    """`read_table` for sources that cannot block."""
    length = _header_length(source, await source.read_async(0, 8))
    return _parse(source, await source.read_async(8, length), length)


def _header_length(source: Source, first: bytes | memoryview) -> int:
    if source.size < 10 or len(first) < 8:
        raise _bad(source, f"{source.size} bytes are too few for a safetensors file")
    (length,) = struct.unpack("<Q", first)
    if length > MAX_HEADER:
        kind = "a web page that was saved instead" if first[:1] == b"<" else "safetensors"
        raise _bad(
            source, f"the header says it has {length} bytes, more than {MAX_HEADER} (is it {kind}?)"
        )
    if length > source.size - 8:
        raise _bad(source, f"the header has {length} bytes, the file {source.size}: it is cut off")
    return int(length)


def _parse(source: Source, raw: bytes | memoryview, length: int) -> Table:
    if len(raw) != length:
        raise _bad(source, f"only {len(raw)} of the header's {length} bytes can be read")
    if raw[:1] != b"{":
        raise _bad(source, f"the header begins with {bytes(raw[:1])!r}, not with '{{'")
    header = parse_json(
        raw,
        f"{source.name}: the header",
        depth=3,
        most=_MOST_VALUES,
        object_pairs_hook=_Objects(),
        parse_int=_natural,
    )
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or not all(_is_text(v) for v in metadata.values()):
        raise _bad(source, "the header's __metadata__ is not an object of strings")
    entries = []
    while header:  # emptied step by step, as the objects of many tensors take much memory
        name, row = header.popitem()
        entries.append(_entry(source, name, row, 8 + length))
    entries.sort(key=lambda e: (e.offset, e.nbytes, e.name))
    end = 8 + length
    for entry in entries:
        if entry.offset != end:
            what = "they overlap" if entry.offset < end else "there is a gap"
            raise _bad(
                source,
                f'tensor "{entry.name}" begins at byte {entry.offset} of the file, the one before '
                f"it ends at {end}: {what}",
            )
        end += entry.nbytes
    if end != source.size != UNKNOWN:
        raise _bad(source, f"the tensors end at byte {end}, the file has {source.size}")
    return Table({e.name: e for e in entries}, metadata)


def _entry(source: Source, name: str, row: Any, base: int) -> Entry:
    """The checked entry of one tensor; `base` is the offset of the tensors' bytes."""
    if not _is_text(name):
        raise _bad(source, f"the tensor name {name!r} is not Unicode text")
    if type(row) is not dict or row.keys() != _KEYS:
        raise _bad(source, f'tensor "{name}" must have the keys dtype, shape and data_offsets')
    dtype = _KNOWN.get(row["dtype"]) if type(row["dtype"]) is str else None
    if dtype is None:
        known = ", ".join(_KNOWN)
        what = f"dtype {row['dtype']!r:.40} is not supported; supported: {known}"
        raise _bad(source, f'tensor "{name}": {what}')
    shape, offsets = row["shape"], row["data_offsets"]
    for what, numbers in (("shape", shape), ("data_offsets", offsets)):
        if type(numbers) is not list or not all(type(n) is int for n in numbers):
            raise _bad(source, f'tensor "{name}": {what} is not a list of whole numbers')
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= source.size - base:
        raise _bad(
            source,
            f'tensor "{name}": data_offsets {_short(offsets)} are not in the {source.size - base} '
            "bytes after the header",
        )
    if len(shape) > MAX_DIMS:
        raise _bad(source, f'tensor "{name}" has {len(shape)} dims, more than {MAX_DIMS}')
    # Dims beside a zero count too.
    if count_elements(shape) > MOST_ELEMENTS:
        raise _bad(source, f'tensor "{name}": the shape {_short(shape)} is too large')
    count = math.prod(shape)
    if count % dtype.block:
        raise _bad(
            source,
            f'tensor "{name}": {row["dtype"]} {_short(shape)} does not end at a byte; the number '
            f"of elements must be a multiple of {dtype.block}",
        )
    nbytes = dtype.nbytes(count)
    if offsets[1] - offsets[0] != nbytes:
        raise _bad(
            source,
            f'tensor "{name}": data_offsets {_short(offsets)} are {offsets[1] - offsets[0]} bytes, '
            f"{row['dtype']} {_short(shape)} takes {nbytes}",
        )
    return Entry(name, dtype, tuple(shape), base + offsets[0], nbytes)


class _Objects:
    """Makes the objects of a header; bounds their number and refuses repeated keys.

    Refusing further objects during parsing bounds the memory that a hostile header can take.
    """

    def __init__(self) -> None:
        self.tensors = self.others = 0

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            names = sorted(name for name, _ in pairs)
            twice = next(a for a, b in zip(names, names[1:], strict=False) if a == b)
            raise ValueError(f"the key {twice!r:.80} occurs twice")
        if fields.keys() == _KEYS:
            self.tensors += 1
            if self.tensors > _MOST_TENSORS:
                raise ValueError(f"it has more than {_MOST_TENSORS} tensors")
        else:
            self.others += 1
            if self.others > 2:  # the metadata and the header itself
                raise ValueError(f"an object has the keys {list(islice(fields, 4))!r:.80}")
        return fields


def _natural(digits: str) -> int:
    if digits[0] == "-":  # "-0" too, as in the reference
        raise ValueError(f"{digits:.20} is negative")
    return int(digits)


def _is_text(value: Any) -> bool:
    try:
        return type(value) is str and value.encode() is not None
    except UnicodeEncodeError:  # JSON can spell halves of surrogate pairs
        return False


def _short(numbers: list[int]) -> str:
    return str(tuple(numbers)) if len(numbers) < 9 else f"of {len(numbers)} numbers"


def _bad(source: Source, what: str) -> FormatError:
    return FormatError(f"{source.name}: {what}")


# --- loading and saving -----------------------------------------------------------------------


def load_safetensors(
    source: str | os.PathLike[str] | Source, device: str = "cpu"
) -> dict[str, Tensor]:
    """The tensors of a safetensors file, of a sharded index or of a folder that holds one of them.

    Only headers are read. On `cpu` a tensor is a view of the mapped file: its pages are read when
    they are used, and writing to it never changes the file. Raises FormatError for a file that does
    not follow the format, FileNotFoundError for a missing one.
    """
    if not isinstance(source, str | os.PathLike):
        return _load([(source, read_table(source))], device)
    opened = open_tables(source)
    try:
        return _load(opened, device)
    finally:
        for file, _ in opened:
            file.close()


def _load(opened: list[tuple[Source, Table]], device: str) -> dict[str, Tensor]:
    sources, tables = zip(*opened, strict=True)
    steps = load_schedule(tables, [destination_for(s) for s in sources])
    loaded = run_schedule(steps, sources)
    return {name: t.to(device) for name, t in loaded}


def open_tables(path: str | os.PathLike[str]) -> list[tuple[Source, Table]]:
    """The opened files of `path`, each with the table of the tensors to load from it.

    `path` is a file, an index of shards (*.index.json), or a folder with model.safetensors, an
    index, or a single *.safetensors. Raises FileNotFoundError and FormatError.
    """
    place = weights_in(Path(path)) if Path(path).is_dir() else Path(path)
    if not place.name.endswith(".index.json"):
        source = open_source(place)
        return [(source, read_table(source))]
    named = read_index(place)
    sources = {shard: open_source(place.parent / shard) for shard in named}
    tables = {shard: read_table(source) for shard, source in sources.items()}
    names = taken(place, named, {shard: table.entries for shard, table in tables.items()})
    return [
        (
            sources[shard],
            Table(
                {n: table.entries[n] for n in table.entries if n in names[shard]}, table.metadata
            ),
        )
        for shard, table in tables.items()
    ]


def save_safetensors(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write `tensors` to a safetensors file, with the same bytes as the reference implementation.

    The file appears once it is complete. An existing file is replaced; tensors that are views of it
    stay valid. Raises TypeError for values that are not tensors or text, ValueError for a name or a
    dtype that the format does not support.

    `path` is the file, `metadata` texts by name.
    """
    header, stored = _laid_out(tensors, metadata)
    with replacing(path) as file:
        file.write(header)
        for tensor in stored:
            file.write(tensor.raw_bytes())


def safetensors_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file's bytes.

    `tensors` and what it raises are as in `save_safetensors`.
    """
    header, stored = _laid_out(tensors, None)
    return b"".join([header, *(tensor.raw_bytes() for tensor in stored)])


def _laid_out(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> tuple[bytes, list[Tensor]]:
    """A file's beginning, and the tensors in its order."""
    rank = {dtype: number for number, dtype in enumerate(_ORDER)}
    rows = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"save: {name!r} is a {type(tensor).__name__}, not a Tensor")
        if name == "__metadata__" or not _is_text(name):
            raise ValueError(f"save: a safetensors file cannot have a tensor named {name!r}")
        if tensor.dtype not in _NAMES:
            how = "; dequantize() it first" if tensor.dtype.kind == "q" else ""
            raise ValueError(
                f"save: {name!r} is {tensor.dtype.name}, which safetensors does not support{how}"
            )
        rows.append((_NAMES[tensor.dtype], name, tensor))
    rows.sort(key=lambda row: (rank[row[0]], row[1]))
    header: dict[str, Any] = {}
    if metadata:
        if not all(_is_text(text) for pair in metadata.items() for text in pair):
            raise TypeError("save: metadata must be text, keys and values")
        header["__metadata__"] = dict(metadata)
    end = 0
    for kind, name, tensor in rows:
        begin, end = end, end + tensor.dtype.nbytes(math.prod(tensor.shape))
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, [tensor for _, _, tensor in rows]
