"""Sources of a reader's bytes: memory, a file, a mapped file, a server, a browser's Blob.

A Source has a size and returns any range of its bytes, so one reader works for a mapped file, a
download and a file that was dropped on a page.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from typing import Any, BinaryIO, Protocol

from rushlight.core.basis.errors import BlockingReadError, FormatError

Bytes = bytes | memoryview


UNKNOWN = 2**53 - 1  # the size of a file that a server does not state, as JavaScript has it


class Source(Protocol):
    """`size` bytes; any range of them can be read. `name` is for messages."""

    name: str
    size: int

    def read(self, offset: int, n: int) -> Bytes:
        """The bytes [offset, offset + n), fewer at the end of the source."""

    async def read_async(self, offset: int, n: int) -> Bytes:
        """`read` without blocking."""

    def close(self) -> None:
        """Close the file or connection; bytes that were read stay valid."""


class BytesSource:
    """Bytes in memory: `read` returns views of them."""

    def __init__(self, data: Bytes | bytearray, name: str = "bytes") -> None:
        self.name = name
        self.view = memoryview(data).cast("B")
        self.size = self.view.nbytes

    def read(self, offset: int, n: int) -> memoryview:
        """A view of the bytes [offset, offset + n)."""
        return self.view[offset : offset + n]

    async def read_async(self, offset: int, n: int) -> memoryview:
        """As `read`."""
        return self.read(offset, n)

    def close(self) -> None:
        """Nothing is open."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A file, opened to read. Raises OSError for a missing file, FormatError for a pipe or device.

    Opening a pipe would wait for its writer, and a device may have no end.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115, PTH123 (the caller closes it)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise FormatError(
        f"{os.fspath(path)} is not a regular file",
        hint="write the bytes to a file first: parts of it are read in any order",
    )


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a file. Raises as `open_regular`, and FormatError for more than `most` bytes."""
    with open_regular(path) as file:
        # `read(most)` would allocate that much first.
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FormatError(f"{os.fspath(path)} has {size} bytes; at most {most} are read")
        return file.read(size)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class FileSource:
    """A file, read piece by piece; threads may share it. Raises what `open_regular` raises."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._file = open_regular(path)
        self._lock = threading.Lock()
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, n: int) -> bytes:
        """A copy of the bytes [offset, offset + n)."""
        with self._lock:
            self._file.seek(offset)
            # Bounded by the file's size, as read(n) allocates n bytes first.
            return self._file.read(max(0, min(n, self.size - offset)))

    async def read_async(self, offset: int, n: int) -> bytes:
        """As `read`."""
        return self.read(offset, n)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class MmapSource(BytesSource):
    """A mapped file: `read` returns views of it, which keep the mapping alive.

    Pages are read when they are used. The mapping is private: a write to a view changes memory
    only, never the file. The file must not be shortened while views exist (replacing it is safe).
    A file larger than the memory that the system can promise is mapped read-only.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open_regular(path) as file:
            self._map(file.fileno(), os.fspath(path))

    def _map(self, handle: int, name: str) -> None:
        import mmap

        data: bytes | mmap.mmap = b""  # an empty file cannot be mapped
        if os.fstat(handle).st_size:
            try:
                data = mmap.mmap(handle, 0, access=mmap.ACCESS_COPY)
            except OSError:
                data = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        super().__init__(memoryview(data), name)

    @classmethod
    def of_handle(cls, handle: int, name: str) -> MmapSource:
        """The mapped file that is open under a number; it may be closed afterwards."""
        source = cls.__new__(cls)
        source._map(handle, name)
        return source

    def forget(self, start: int, nbytes: int) -> None:
        """Give back the memory of whole pages of a range; a view that is read has them read again.

        What was written to views of the range is lost.
        """
        import mmap

        pages, size = self.view.obj, mmap.PAGESIZE
        first, last = -(-start // size) * size, (start + nbytes) // size * size
        if last > first and isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED, first, last - first)

    def close(self) -> None:
        """Release the mapping once no view of it is left."""
        self.view = memoryview(b"")
        self.size = 0


class HttpSource:
    """A file on a server, read by HTTP ranges.

    Natively `read` uses urllib; in the tab `read_async` uses fetch. Raises FetchError if the server
    cannot be reached, refuses, or does not support ranges.
    """

    # HTTP modules are imported when they are used, as their import is slow.

    def __init__(self, url: str, *, size: int | None = None, timeout: float = 5.0) -> None:
        self.name = url
        self.timeout = timeout
        self.size = self._ask_size() if size is None else size

    def _ask_size(self) -> int:
        if _in_tab():
            raise BlockingReadError(
                f"{self.name}: asking for the size would block", hint="pass size= to HttpSource"
            )
        from rushlight.core.io.hub.fetch import http

        with http.open_url(self.name, self.timeout, span=(0, 1)) as response:
            known = response.status == 206
            total = http.content_range(response, self.name)[1] if known else None
        if total is None:
            message = f"{self.name}: the server does not support ranges; download the file"
            raise http.FetchError(message, self.name)
        return total

    def read(self, offset: int, n: int) -> bytes:
        """Request the bytes [offset, offset + n); blocks."""
        stop = min(offset + n, self.size)
        if stop <= offset:
            return b""
        if _in_tab():
            return bytes(_wait(self.read_async(offset, n), self.name))
        from rushlight.core.io.hub.fetch import http

        with http.open_url(self.name, self.timeout, span=(offset, stop)) as response:
            if response.status != 206 or http.content_range(response, self.name)[0] != offset:
                raise http.FetchError(f"{self.name}: the server sent another range", self.name)
            return http.read_whole(response)

    async def read_async(self, offset: int, n: int) -> bytes:
        """Request the bytes [offset, offset + n), natively in a thread."""
        stop = min(offset + n, self.size)
        if stop <= offset:
            return b""
        if not _in_tab():
            import asyncio

            return await asyncio.to_thread(self.read, offset, n)
        from pyodide.http import pyfetch  # type: ignore[import-not-found, unused-ignore]

        answer = await pyfetch(self.name, headers={"Range": f"bytes={offset}-{stop - 1}"})
        if answer.status != 206:
            from rushlight.core.io.hub.fetch import FetchError

            message = f"{self.name}: asked for a range, the server answered {answer.status}"
            raise FetchError(message, self.name, answer.status)
        return bytes(await answer.bytes())

    def close(self) -> None:
        """Do nothing: no connection is open between reads."""


class BlobSource:
    """A browser's Blob or File. `blob` is its JavaScript proxy.

    `read` works in workers, where JavaScript can read a Blob directly; `read_async` everywhere.
    """

    def __init__(self, blob: Any) -> None:
        self.name = str(getattr(blob, "name", "blob"))
        self.size = int(blob.size)
        self._blob = blob

    def read(self, offset: int, n: int) -> bytes:
        """The bytes [offset, offset + n); raises BlockingReadError on a page without JSPI."""
        import js  # type: ignore[import-not-found, unused-ignore]

        reader = getattr(js, "FileReaderSync", None)
        if reader is None:
            return bytes(_wait(self.read_async(offset, n), self.name))
        slice_ = self._blob.slice(offset, min(offset + n, self.size))
        return bytes(reader.new().readAsArrayBuffer(slice_).to_bytes())

    async def read_async(self, offset: int, n: int) -> bytes:
        """The bytes [offset, offset + n)."""
        slice_ = self._blob.slice(offset, min(offset + n, self.size))
        return bytes((await slice_.arrayBuffer()).to_bytes())

    def close(self) -> None:
        """Release the Blob."""
        self._blob = None


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an http(s) address."""
    return str(path).startswith(("http://", "https://"))


def open_source(path: str | os.PathLike[str]) -> Source:
    """The best Source for a path or an http(s) address: a mapped file where possible.

    Raises OSError for a missing file, FormatError for a pipe or device, FetchError for an address
    that does not answer.
    """
    if is_address(path):
        return HttpSource(str(path))
    with contextlib.suppress(ImportError):
        return MmapSource(path)
    return FileSource(path)


def _in_tab() -> bool:
    return sys.platform == "emscripten"


def _wait(awaitable: Any, name: str) -> Any:
    """Wait for `awaitable` in the tab, if the browser supports it (JSPI)."""
    from pyodide.ffi import (  # type: ignore[import-not-found, unused-ignore]
        can_run_sync,
        run_sync,
    )

    if not can_run_sync():
        awaitable.close()
        raise BlockingReadError(
            f"{name}: reading would block, and this browser cannot wait in the middle of Python",
            hint="use read_async",
        )
    return run_sync(awaitable)
