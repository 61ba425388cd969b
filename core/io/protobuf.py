"""Protocol buffers: the fields of messages, read within bounds, of bytes and of any Source.

Every length is checked against the bytes that are there before anything is taken. The wire format
is described at protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, TypeVar

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.source import Bytes, Source

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PIECE = 1 << 16  # bytes that are read at once of a source that is not in memory
_HEADER = 20  # the most bytes of a tag and a length

T = TypeVar("T")
# What reads a message asks for (offset, count) of bytes, so that a file, a server and a page's
# file are read by the same code, with and without blocking.
Parsing = Generator[tuple[int, int], Bytes, T]


def fields(data: bytes | memoryview, what: str) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message: an int, or the bytes of a view.

    FormatError, which names `what`, where the bytes are not a message.
    """
    view, place = memoryview(data), 0
    while place < len(view):
        tag, place = _varint(view, place, what)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _varint(view, place, what)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _varint(view, place, what)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise FormatError(f"{what}: byte {place} begins a field of kind {kind}, which has none")
        if size > len(view) - place:
            raise FormatError(f"{what}: a field of {size} bytes at byte {place} ends past the file")
        yield number, view[place : place + size]
        place += size


def _varint(view: memoryview, at: int, what: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(view):
            raise FormatError(f"{what} ends within a number")
        byte, at = view[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
    raise FormatError(f"{what}: a number at byte {at} has more than ten bytes")


class Span(NamedTuple):
    """The bytes [start, stop) of a source."""

    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start


class Window:
    """The bytes of a source that are in memory: all of them, or the piece that was read last.

    most: the fields that may be read in all. A file of tiny fields takes a hundred times its size
    as Python objects.
    """

    def __init__(self, source: Source, most: int) -> None:
        self.name, self.size, self.room, self.most = source.name, source.size, most, most
        self.start, self.view = 0, memoryview(b"")

    def load(self, start: int, stop: int) -> Parsing[memoryview]:
        """The bytes [start, stop). FormatError if the source ends before."""
        first = start - self.start
        if first < 0 or stop - self.start > len(self.view):
            count = max(stop - start, min(_PIECE, self.size - start))
            self.view, self.start, first = memoryview((yield start, count)), start, 0
            if len(self.view) < stop - start:
                raise FormatError(
                    f"{self.name}: only {len(self.view)} of {count} bytes can be read"
                )
        return self.view[first : first + stop - start]

    def held(self, span: Span) -> memoryview | None:
        """The bytes of a span if they are in memory."""
        first, last = span.start - self.start, span.stop - self.start
        return self.view[first:last] if 0 <= first and last <= len(self.view) else None

    def fields(self, span: Span) -> Parsing[list[tuple[int, int | Span]]]:
        """(number, value) of each field of the message in `span`: a varint, or where its bytes lie.

        FormatError where the bytes are not a message, or have too many fields.
        """
        out: list[tuple[int, int | Span]] = []
        at, stop = span
        while at < stop:
            view = self.view
            first = at - self.start
            if first < 0 or (first + _HEADER > len(view) and first + stop - at > len(view)):
                view = yield from self.load(at, min(at + _HEADER, stop))
                view, first = self.view, at - self.start
            # Most numbers have one byte: a file of trees has millions of them.
            tag, place = view[first], first + 1
            if tag > 127:
                tag, place = _varint(view, first, self.name)
            kind = tag & 7
            value: int | Span
            short = place < len(view) and view[place] < 128
            if kind == _VARINT:
                value, place = (
                    (view[place], place + 1) if short else _varint(view, place, self.name)
                )
                at = self.start + place
            else:
                if kind == _BYTES:
                    size, place = (
                        (view[place], place + 1) if short else _varint(view, place, self.name)
                    )
                elif kind in (_FIXED64, _FIXED32):
                    size = 8 if kind == _FIXED64 else 4
                else:
                    raise FormatError(
                        f"{self.name}: byte {at} begins a field of kind {kind}, which has none"
                    )
                begin = self.start + place
                value, at = Span(begin, begin + size), begin + size
            if at > stop:
                raise FormatError(f"{self.name}: a field ends at byte {at}, its message at {stop}")
            out.append((tag >> 3, value))
            self.room -= 1
            if self.room < 0:
                raise FormatError(f"{self.name} has more than {self.most} fields")
        return out

    def text(self, span: Span, most: int = 1 << 20) -> Parsing[str]:
        """A string. FormatError for more than `most` bytes, and for what is not UTF-8."""
        if span.nbytes > most:
            raise FormatError(f"{self.name}: a text of {span.nbytes} bytes; at most {most}")
        view = yield from self.load(*span)
        try:
            return str(view, "utf-8")
        except UnicodeDecodeError:
            raise FormatError(f"{self.name}: the text at byte {span.start} is not UTF-8") from None

    def numbers(self, span: Span, most: int) -> Parsing[list[int]]:
        """The varints of a packed field; at most `most`, else FormatError."""
        view = yield from self.load(*span)
        out: list[int] = []
        at = 0
        while at < len(view):
            value, at = _varint(view, at, self.name)
            out.append(value)
            if len(out) > most:
                raise FormatError(f"{self.name}: more than {most} numbers at byte {span.start}")
        return out


def signed(value: int) -> int:
    """The int64 of a varint."""
    return value - 2**64 if value >= 2**63 else value


def read(parsing: Parsing[T], source: Source) -> T:
    """Run a parsing over a source that may block. What `parsing` returns."""
    try:
        request = next(parsing)
        while True:
            request = parsing.send(source.read(*request))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def read_async(parsing: Parsing[T], source: Source) -> T:
    """`read` without blocking."""
    try:
        request = next(parsing)
        while True:
            request = parsing.send(await source.read_async(*request))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
