"""Sources of the browser: a Blob, and a server by way of fetch. In a tab the Blob is a real one."""

from __future__ import annotations

import asyncio
import sys
import types
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.hub.fetch import FetchError
from rushlight.core.io.weights import source as sources
from rushlight.core.io.weights.source import BlobSource, HttpSource

DATA = bytes(range(256)) * 20


class Bytes:
    """What JavaScript gives back: an ArrayBuffer's proxy."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def to_bytes(self) -> bytes:
        return self.data


class Blob:
    """A Blob's proxy, outside of the browser."""

    name = "dropped.bin"

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def slice(self, start: int, stop: int) -> Blob:
        return Blob(self.data[start:stop])

    async def arrayBuffer(self) -> Bytes:
        return Bytes(self.data)


class Reader:
    """FileReaderSync, which workers have."""

    @staticmethod
    def new() -> Reader:
        return Reader()

    def readAsArrayBuffer(self, blob: Blob) -> Bytes:
        return Bytes(blob.data)


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = types.ModuleType(name)
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.native  # a tab has no event loop that a test could run
def test_a_blob_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    _module(monkeypatch, "js", FileReaderSync=Reader)
    source = BlobSource(Blob(DATA))
    assert (source.name, source.size) == ("dropped.bin", len(DATA))
    assert source.read(300, 7) == DATA[300:307]
    assert source.read(len(DATA) - 2, 7) == DATA[-2:]
    assert source.read(len(DATA), 7) == b""
    assert asyncio.run(source.read_async(300, 7)) == DATA[300:307]
    assert asyncio.run(source.read_async(len(DATA) - 2, 7)) == DATA[-2:]
    source.close()


@pytest.mark.native
@pytest.mark.parametrize("jspi", [True, False])
def test_a_page_reads_a_blob_only_where_it_can_wait(
    monkeypatch: pytest.MonkeyPatch, jspi: bool
) -> None:
    _module(monkeypatch, "js")  # FileReaderSync is in workers only
    _module(monkeypatch, "pyodide.ffi", can_run_sync=lambda: jspi, run_sync=asyncio.run)
    source = BlobSource(Blob(DATA))
    if jspi:
        assert source.read(300, 7) == DATA[300:307]
    else:
        with pytest.raises(rl.BlockingReadError, match=r"dropped.bin.*\n.*use read_async"):
            source.read(300, 7)


if sys.platform == "emscripten":

    def test_a_real_blob() -> None:
        import js  # type: ignore[import-not-found, unused-ignore]
        from pyodide.ffi import to_js  # type: ignore[import-not-found, unused-ignore]

        source = BlobSource(js.Blob.new(to_js([DATA])))
        assert source.size == len(DATA)
        if hasattr(js, "FileReaderSync"):  # in a worker
            assert source.read(300, 7) == DATA[300:307]
            assert source.read(len(DATA) - 2, 7) == DATA[-2:]


class Answer:
    """What pyfetch gives back."""

    def __init__(self, status: int, data: bytes) -> None:
        self.status, self.data = status, data

    async def bytes(self) -> bytes:
        return self.data


@pytest.mark.native
def test_the_tab_fetches_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    status = 206

    async def pyfetch(url: str, headers: dict[str, str]) -> Answer:
        asked.append((url, headers["Range"]))
        first, _, last = headers["Range"].removeprefix("bytes=").partition("-")
        return Answer(status, DATA[int(first) : int(last) + 1])

    monkeypatch.setattr(sources, "_in_tab", lambda: True)
    _module(monkeypatch, "pyodide.http", pyfetch=pyfetch)
    _module(monkeypatch, "pyodide.ffi", can_run_sync=lambda: True, run_sync=asyncio.run)
    with pytest.raises(rl.BlockingReadError, match="pass size= to HttpSource"):
        HttpSource("./w.safetensors")
    source = HttpSource("./w.safetensors", size=len(DATA))
    assert asyncio.run(source.read_async(10, 5)) == DATA[10:15]
    assert source.read(len(DATA) - 2, 50) == DATA[-2:]
    assert source.read(len(DATA), 50) == b""
    assert asked == [
        ("./w.safetensors", "bytes=10-14"),
        ("./w.safetensors", f"bytes={len(DATA) - 2}-{len(DATA) - 1}"),
    ]
    status = 200
    with pytest.raises(FetchError, match="asked for a range, the server answered 200") as caught:
        asyncio.run(source.read_async(0, 5))
    assert caught.value.status == 200
