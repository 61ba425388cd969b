"""Held: a source of the bytes that have been brought so far, for readers that cannot wait.

A reader runs over what is held. Where it asks for more, the caller brings that range and runs the
reader again. So any reader of a header works over ranges of a server or of a Blob, without waits in
the middle of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rushlight.core.basis.errors import FormatError

T = TypeVar("T")

FIRST = 1 << 16  # bytes to bring first
_LEAST = 1 << 10
# What goes on for this long is brought in doubling steps: few runs of the reader.
_LARGE = 1 << 20


class Held:
    """The parts of a file of `size` bytes that were added; `read` notes what it lacks."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._parts: list[tuple[int, bytearray]] = []
        self._lacking: tuple[int, int] | None = None  # offset, bytes that were asked for

    def add(self, offset: int, data: bytes) -> None:
        """Keep the bytes `data` from `offset` on."""
        for begin, chunk in self._parts:
            if begin + len(chunk) == offset:
                chunk += data
                return
        self._parts.append((offset, bytearray(data)))

    def read(self, offset: int, n: int) -> bytes:
        """What is held of the bytes [offset, offset + n)."""
        stop = min(offset + n, self.size)
        content = b""
        for begin, chunk in self._parts:
            if begin <= offset < begin + len(chunk):
                content = bytes(chunk[offset - begin : stop - begin])
        if offset + len(content) < stop:
            self._lacking = (offset + len(content), stop - offset - len(content))
        return content

    async def read_async(self, offset: int, n: int) -> bytes:
        """The same as `read`."""
        return self.read(offset, n)

    def close(self) -> None:
        """Does nothing, because no file is open."""

    def run(self, reader: Callable[[Held], T]) -> T | tuple[int, int]:
        """What `reader` returns, or the range (offset, length) to bring before the next try.

        Raises the reader's FormatError if nothing was lacking. Memory and requests are bounded by
        what the reader asks for: each range is at most that or as long as what is held already.
        """
        self._lacking = None
        try:
            return reader(self)
        except FormatError:
            if self._lacking is None:
                raise
        offset, asked = self._lacking
        total = sum(len(chunk) for _, chunk in self._parts)
        grown = max((len(p) for begin, p in self._parts if begin + len(p) == offset), default=0)
        wanted = max(min(asked, max(3 * total, FIRST)), grown if grown >= _LARGE else _LEAST)
        return offset, min(wanted, self.size - offset)
