"""The tensors of a model: small ones are read at once, weights become tensors over the file.

A tensor lies in the file, in fields of numbers, or in a file beside it, which is named by a plain
path below the model's folder.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.codec import is_narrow
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.protobuf import Parsing, Span, read
from rushlight.core.io.weights.load_schedule import LoadStep, destination_for, run_schedule
from rushlight.core.io.weights.source import Source
from rushlight.core.onnx.element_types import (
    COMPLEX64,
    COMPLEX128,
    ElementType,
    carried_values,
    unpacked,
)
from rushlight.core.onnx.proto import Graph, Model, Node, SparseRecord, TensorRecord
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
SMALL = 4096  # elements up to which a tensor is read when the model is
_MOST_FILES = 1024
# Fields of numbers that are stored as they are in memory; the others are varints.
_FIXED = {4: "<f4", 10: "<f8"}


def records_of(model: Model) -> Iterator[TensorRecord | SparseRecord]:
    """Every tensor of a model: initializers, and attributes of nodes, in graphs within too."""
    yield from _in_graph(model.graph)
    for function in model.functions.values():
        yield from records_in(function.nodes)


def _in_graph(graph: Graph) -> Iterator[TensorRecord | SparseRecord]:
    yield from graph.initializers.values()
    yield from records_in(graph.nodes)


def records_in(nodes: list[Node]) -> Iterator[TensorRecord | SparseRecord]:
    """Every tensor in attributes of nodes, in graphs within them too."""
    for node in nodes:
        for attribute in node.attributes.values():
            value = attribute.value
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Graph):
                    yield from _in_graph(item)
                elif isinstance(item, TensorRecord | SparseRecord):
                    if isinstance(item, TensorRecord) and not item.name and node.outputs:
                        item.name = node.outputs[0]
                    yield item


def plain(model: Model) -> list[TensorRecord]:
    """Every dense tensor of a model, those that sparse ones are made of too."""
    out: list[TensorRecord] = []
    for record in records_of(model):
        if isinstance(record, SparseRecord):
            out += [record.values, record.indices]
        else:
            out.append(record)
    return out


def is_weight(record: TensorRecord) -> bool:
    """Whether a tensor is a weight: a parameter, if it is of floats, which can move and learn."""
    if record.texts or record.kind.carried is None or not record.shape:
        return False
    return record.count > SMALL or (record.kind.is_float and record.count > 1)


def named(record: TensorRecord, taken: Collection[str]) -> str:
    """Give a weight a name of its own, and return it; `taken` has those of the others."""
    name = record.name or "tensor"
    while name in taken:
        name += "_"
    record.weight = name
    return name


def as_stored(array: Array, record: TensorRecord) -> Tensor:
    """A weight of its elements, in the dtype in which reading its bytes would give it."""
    weight, kind = from_numpy(np.array(array)), stored_kind(record.kind)
    return weight if is_narrow(kind) or weight.dtype is kind else weight.to(kind)


def check_sizes(records: list[TensorRecord], source: Source) -> None:
    """FormatError for a tensor whose bytes are not those of its shape."""
    for record in records:
        what = f"{source.name}: tensor {brief(record.name)}"
        if record.raw is not None and record.raw.nbytes != record.nbytes:
            raise FormatError(
                f"{what} of type {record.kind.name} and shape {list(record.shape)} takes "
                f"{record.nbytes} bytes; the file has {record.raw.nbytes}"
            )
        if record.external is None and record.raw is None and record.kind.name != "string":
            # Every number takes a bit of the file at least; the exact count is checked when read.
            held = sum(v.nbytes if isinstance(v, Span) else 1 for _, v in record.numbers)
            if record.count > 8 * max(held, 0):
                raise FormatError(
                    f"{what} of shape {list(record.shape)} takes {record.count} numbers; the file "
                    f"has {held} bytes of them"
                )


def small_arrays(records: list[TensorRecord], source: Source) -> None:
    """Read the small tensors of this file into their records, so that shapes can be known."""
    for record in records:
        if record.count <= SMALL and record.external is None and record.array is None:
            record.array = read(array_of(record, source), source)


def array_of(record: TensorRecord, source: Source) -> Parsing[Array]:
    """The elements of a tensor of this file, in the dtype that carries them.

    FormatError where the file has more or fewer than its shape says.
    """
    if record.kind.name == "string":
        texts = np.array([str(t, "utf-8", "replace") for t in record.texts], np.object_)
        return _shaped(texts, record, source.name)
    if record.raw is not None:
        data = yield record.raw.start, record.raw.nbytes
        if len(data) != record.raw.nbytes:
            raise FormatError(f"{source.name}: tensor {brief(record.name)} ends past the file")
        return from_bytes(data, record, source.name)
    pieces = []
    for number, value in record.numbers:
        if isinstance(value, int):
            pieces.append(np.array([value & (2**64 - 1)], np.uint64))
            continue
        data = yield value.start, value.nbytes
        kind = _FIXED.get(number)
        if kind and len(data) % int(kind[-1]):
            raise FormatError(f"{source.name}: tensor {brief(record.name)} has {len(data)} bytes")
        pieces.append(np.frombuffer(data, kind) if kind else varints(data, source.name))
    numbers = np.concatenate(pieces) if pieces else np.empty(0, record.kind.stored)
    return _from_numbers(numbers, record, source.name)


def _from_numbers(numbers: Array, record: TensorRecord, what: str) -> Array:
    kind = record.kind
    if kind in (COMPLEX64, COMPLEX128):
        if len(numbers) != 2 * record.count:
            raise FormatError(
                f"{what}: tensor {brief(record.name)} takes {2 * record.count} numbers; it has "
                f"{len(numbers)}"
            )
        stored = np.asarray(numbers, order="C").view(kind.stored)
    elif kind.bits < 8:
        if len(numbers) != record.nbytes:
            raise FormatError(
                f"{what}: tensor {brief(record.name)} takes {record.nbytes} numbers; it has "
                f"{len(numbers)}"
            )
        stored = unpacked(numbers.astype(np.uint8), kind, record.count)
        return _shaped(carried_values(stored, kind), record, what)
    elif kind.stored.kind == "f" and kind.bits == 16 and numbers.dtype.kind == "u":
        stored = numbers.astype(np.uint16).view(np.float16)
    else:
        stored = numbers.astype(kind.stored)
    return _shaped(carried_values(stored, kind), record, what)


def from_bytes(data: Any, record: TensorRecord, what: str) -> Array:
    """The elements of a tensor's bytes, in the dtype that carries them. FormatError for too few."""
    kind = record.kind
    if len(data) != record.nbytes:
        raise FormatError(
            f"{what}: tensor {brief(record.name)} has {len(data)} of {record.nbytes} bytes"
        )
    stored = np.frombuffer(data, np.dtype(kind.stored).newbyteorder("<"))
    if kind.bits < 8:
        stored = unpacked(stored, kind, record.count)
    return _shaped(
        carried_values(stored.astype(stored.dtype.newbyteorder("=")), kind), record, what
    )


def _shaped(values: Array, record: TensorRecord, what: str) -> Array:
    if values.size != record.count:
        raise FormatError(
            f"{what}: tensor {brief(record.name)} of shape {list(record.shape)} has {values.size} "
            "elements"
        )
    return values.reshape(record.shape)


def varints(data: Any, what: str) -> Array:
    """The numbers of a packed field. FormatError for one that does not end."""
    codes = np.frombuffer(data, np.uint8)
    if not len(codes):
        return np.empty(0, np.uint64)
    ends = np.flatnonzero(codes < 128)
    if not len(ends) or ends[-1] != len(codes) - 1:
        raise FormatError(f"{what} ends within a number")
    begins = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - begins + 1
    if lengths.max() > 10:
        raise FormatError(f"{what}: a number has more than ten bytes")
    out = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max())):
        there = lengths > place
        part = (codes[begins[there] + place] & 127).astype(np.uint64) << np.uint64(7 * place)
        out[there] |= part
    return out


def dense(record: SparseRecord) -> Array:
    """The dense array of a sparse tensor whose parts are read. FormatError for wrong places."""
    values, indices = record.values.array, record.indices.array
    size = int(np.prod(record.shape, dtype=np.int64)) if record.shape else 1
    if size > 1 << 28:
        raise FormatError(f"a sparse tensor of shape {record.shape} is too large to be made dense")
    if indices.ndim == 2 and indices.shape[1:] == (len(record.shape),):
        inside = ((indices >= 0) & (indices < np.array(record.shape))).all()
        places = np.ravel_multi_index(tuple(indices.T), record.shape) if inside else None
    else:
        places = indices.reshape(-1) if ((indices >= 0) & (indices < size)).all() else None
    if places is None or places.size != values.size:
        raise FormatError(f"the indices of a sparse tensor of shape {record.shape} do not fit")
    out = np.zeros(size, values.dtype)
    out[places] = values.reshape(-1)
    return out.reshape(record.shape)


class Files:
    """A model's file, and those beside it that hold tensors.

    folder: where they lie, or the model's address; None for a model in memory, which has none.
    opened: opens one by its path or address.
    """

    def __init__(
        self, source: Source, folder: Path | str | None, opened: Callable[[Any], Source]
    ) -> None:
        self.source, self.folder, self.opened = source, folder, opened
        self.beside: dict[str, Source] = {}

    def place_of(self, record: TensorRecord) -> tuple[Source, Span]:
        """The file and the bytes of a tensor that lies in one piece.

        FormatError for a path that leads out of the folder, and for bytes past the file's end.
        """
        if record.external is None:
            assert record.raw is not None
            return self.source, record.raw
        what = f"{self.source.name}: tensor {brief(record.name)}"
        location = record.external.get("location", "")
        source = self.beside.get(location) or self._source(location, what)
        start = _count(record.external.get("offset", "0"), f"{what}: offset")
        length = _count(record.external.get("length", str(record.nbytes)), f"{what}: length")
        if length != record.nbytes or start + length > source.size:
            raise FormatError(
                f"{what} takes {record.nbytes} bytes; {brief(location)} has {length} at {start} of "
                f"{source.size}"
            )
        return source, Span(start, start + length)

    async def open_async(
        self, records: list[TensorRecord], opened: Callable[[Any], Awaitable[Source]]
    ) -> None:
        """Open every file beside the model that tensors lie in, without blocking.

        FormatError for a path that leads out of the folder, and for more than 1024 files.
        """
        for record in records:
            location = (record.external or {}).get("location", "")
            if record.external is not None and location not in self.beside:
                what = f"{self.source.name}: tensor {brief(record.name)}"
                self.beside[location] = await opened(self._place(location, what))

    def _place(self, location: str, what: str) -> Path | str:
        """The path or address of a file beside the model."""
        if self.folder is None:
            raise FormatError(
                f"{what} lies in the file {brief(location)} beside the model",
                hint="load the model by its path",
            )
        if len(self.beside) >= _MOST_FILES:
            raise FormatError(f"{what}: tensors lie in more than {_MOST_FILES} files")
        if isinstance(self.folder, str):
            return external_address(self.folder, location, what)
        return external_path(self.folder, location, what)

    def _source(self, location: str, what: str) -> Source:
        place = self._place(location, what)
        try:
            source = self.opened(place)
        except OSError as error:
            raise FormatError(
                f"{what} lies in {brief(location)}, which cannot be read: {error}"
            ) from None
        self.beside[location] = source
        return source


def _count(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise FormatError(f"{what} is {brief(text)}; it must be a number of bytes")
    return int(text)


def _plain_parts(location: str, what: str) -> tuple[str, ...]:
    plain_path = PurePosixPath(location)
    parts = plain_path.parts
    wrong = not parts or plain_path.is_absolute() or ".." in parts or "\\" in location
    if wrong or ":" in location or "\0" in location:
        raise FormatError(f"{what} lies in {brief(location)}; it must be a plain relative path")
    return parts


def external_address(model: str, location: str, what: str) -> str:
    """The address of a file beside a model's. FormatError for one that leads out of its folder."""
    return urljoin(model, "/".join(quote(name) for name in _plain_parts(location, what)))


def external_path(folder: Path, location: str, what: str) -> Path:
    """The path of a file beside a model. FormatError for one that leads out of the folder.

    A link may lead to the blobs of the hub cache whose snapshot the folder is, else nowhere
    outside; a file with several hard links is refused, as it may be one of another place.
    """
    parts = _plain_parts(location, what)
    path = folder.joinpath(*parts)
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    snapshot = home.parent
    cached = snapshot.name == "snapshots" and real.is_relative_to(snapshot.parent / "blobs")
    if not real.is_relative_to(home) and not cached:
        raise FormatError(f"{what} lies in {brief(location)}, a link that leads out of the folder")
    try:
        several = real.is_file() and real.stat().st_nlink > 1
    except OSError as error:
        raise FormatError(
            f"{what} lies in {brief(location)}, which cannot be read: {error.strerror}"
        ) from None
    if several:
        raise FormatError(
            f"{what} lies in {brief(location)}, which has several hard links",
            hint="copy the file; a hard link may be a file of another place",
        )
    return path


def load_weight(record: TensorRecord, source: Source, span: Span) -> Tensor:
    """The tensor of a weight's bytes, as narrow as they are stored; a view of a mapped file.

    FormatError if the source ends early.
    """
    kind = record.kind
    if kind.declared is None or kind.bits < 8:
        # No dtype of ours: the elements as they are carried.
        return from_numpy(from_bytes(source.read(*_piece(span)), record, source.name))
    step = LoadStep(
        0,
        span.start,
        span.nbytes,
        record.name,
        kind.declared,
        record.shape,
        destination_for(source),
    )
    return next(run_schedule([step], [source]))[1]


def _piece(span: Span) -> tuple[int, int]:
    return span.start, span.nbytes


def in_one_piece(record: TensorRecord) -> bool:
    """Whether a tensor's bytes lie together; a packed field of floats becomes `raw`."""
    if record.raw is None and record.external is None and len(record.numbers) == 1:
        number, value = record.numbers[0]
        if number in _FIXED and isinstance(value, Span) and value.nbytes == record.nbytes:
            record.raw = value
    return record.raw is not None or record.external is not None


def stored_kind(kind: ElementType) -> Any:
    """The dtype of a weight of a kind: as stored where there is such a dtype, else as carried."""
    return kind.carried if kind.declared is None or kind.bits < 8 else kind.declared
