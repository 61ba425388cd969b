"""What `load` and `save` take in place of a path: bytes in memory, and files that are open."""

from __future__ import annotations

import io
import os
import stat
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.source import BytesSource, MmapSource, Source

_PIECE = 1 << 20
_TAKEN = "a path, bytes, or a file that is open for bytes (mode 'rb')"


def is_source(value: Any) -> bool:
    """Whether a value has what a Source has."""
    return hasattr(value, "read_async") and hasattr(value, "size")


def name_of(file: Any) -> str:
    """The name of an open file for messages."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else type(file).__name__


def opened(file: Any) -> Source:
    """The bytes of an object: those in memory, or those of an open file from where it stands.

    A regular file that is open for reading only is mapped; others are read to their end. Raises
    TypeError for an object of another kind and for a file that is open for text, FormatError for
    one that is at its end.
    """
    if isinstance(file, bytes | bytearray | memoryview):
        # A view that cannot be written through: the tensors have memory of their own.
        return BytesSource(memoryview(file).toreadonly(), type(file).__name__)
    if is_source(file):
        return file  # type: ignore[no-any-return]
    read = getattr(file, "read", None)
    if not callable(read):
        raise TypeError(f"load: a {type(file).__name__} is not a file; it takes {_TAKEN}")
    name = name_of(file)
    if isinstance(file, io.TextIOBase) or isinstance(read(0), str):
        raise TypeError(f"load: {name} is open for text; open it with mode 'rb'")
    if isinstance(mapped := _mapped(file, name), MmapSource):
        return mapped
    content = bytearray()
    while piece := read(_PIECE):
        content += piece
    if not content:
        raise FormatError(
            f"{name} has no bytes left to read",
            hint="seek(0) goes back to the beginning of what was written",
        )
    return BytesSource(memoryview(content).toreadonly(), name)


def _mapped(file: Any, name: str) -> MmapSource | None:
    """The mapped file, if it is a regular one, opened for reading alone, at its beginning."""
    raw = getattr(file, "raw", None) if type(file) is io.BufferedReader else file
    if type(raw) is not io.FileIO or raw.writable() or file.tell():
        return None
    if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode) or not os.fstat(raw.fileno()).st_size:
        return None
    try:
        source = MmapSource.of_handle(raw.fileno(), name)
    except (ImportError, OSError):
        return None
    file.seek(0, os.SEEK_END)  # as if it had been read
    return source


class Unseekable(io.RawIOBase):
    """A file of which only `write` is known."""

    def __init__(self, file: Any) -> None:
        self.file, self.at = file, 0

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Write all of `data`, in as many calls as the file takes."""
        view = memoryview(data).cast("B")
        while view.nbytes:
            done = self.file.write(view)
            taken = view.nbytes if done is None else int(done)
            self.at += taken
            view = view[taken:]
        return memoryview(data).nbytes

    def tell(self) -> int:
        """How much was written."""
        return self.at


def writable(file: Any) -> Unseekable:
    """An open file to write bytes to. Raises TypeError for another object or a file for text."""
    if not callable(getattr(file, "write", None)):
        raise TypeError(
            f"save: a {type(file).__name__} is not a file; it takes a path, or a file that is open "
            "for bytes (mode 'wb')"
        )
    name = name_of(file)
    if isinstance(file, io.TextIOBase):
        raise TypeError(f"save: {name} is open for text; open it with mode 'wb'")
    if isinstance(file, io.IOBase) and not file.writable():
        raise ValueError(f"save: {name} is open for reading only; open it with mode 'wb'")
    return Unseekable(file)
