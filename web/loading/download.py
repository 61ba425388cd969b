"""Checkpoints from URLs, for Python in a tab. They stream into the memory of their device."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from rushlight.core.backends import Device, device_async
from rushlight.core.backends import device as as_device
from rushlight.core.basis.codec import is_narrow
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import Layout
from rushlight.core.io import load_weights
from rushlight.core.io.hub.fetch import FetchError
from rushlight.core.io.hub.folder import SHORTLIST
from rushlight.core.io.text.tokenizer import import_modules
from rushlight.core.io.weights.byteorder import swap_bytes
from rushlight.core.io.weights.gguf import (
    MAX_HEADER,
    Gguf,
    TruncatedError,
    read_gguf,
    whole_metadata,
)
from rushlight.core.io.weights.load_schedule import (
    Destination,
    LoadSchedule,
    LoadStep,
    load_schedule,
    tensor_of,
)
from rushlight.core.io.weights.pickles.storages import read_storages
from rushlight.core.io.weights.safetensors import read_table
from rushlight.core.io.weights.source import BytesSource
from rushlight.core.io.weights.table import Table
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor
from rushlight.web import import_js
from rushlight.web.loading.held import Held


class Head:
    """A Source over the first bytes of a file: enough for a reader of headers."""

    def __init__(self, name: str, head: bytes, size: int) -> None:
        self.name, self.head, self.size = name, head, size

    def read(self, offset: int, n: int) -> bytes:
        """`n` bytes, or fewer at the end of the head."""
        return self.head[offset : offset + n]

    async def read_async(self, offset: int, n: int) -> bytes:
        """The same as `read`."""
        return self.read(offset, n)

    def close(self) -> None:
        """Does nothing, because no file is open."""


# Where JavaScript puts a tensor's bytes: at an address of the heap, in a buffer of the GPU, or in a
# buffer from which Python repacks them piece by piece.
HEAP, BUFFER, BLOCKS = range(3)


T = TypeVar("T")
Parts = tuple[Mapping[str, bytes], dict[str, Tensor], dict[str, Any] | None]


class Builder:
    """The checkpoint that is being read: memory on the heap and the device, filled by JavaScript.

    The device is open already. `port` is the JavaScript side of a device that weights stream into,
    and None for other devices.
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = as_device(device)
        self.stream = self.device.backend.weight_stream()
        self.port = None if self.stream is None else self.stream.port
        self.files: dict[str, bytes] = {}
        self.tensors: dict[str, Tensor] = {}
        self.graphs: dict[str, Any] = {}  # of ONNX: what remote.js opens, by path
        self._ggufs: list[tuple[str, Gguf]] = []  # the parts of a GGUF file
        self._blocks: list[LoadStep] = []
        self._swapped: list[tuple[np.ndarray[Any, Any], DType]] = []
        self._counts: list[tuple[str, int, np.ndarray[Any, Any], bytes]] = []  # compared at the end
        self._narrow: list[tuple[np.ndarray[Any, Any], LoadStep]] = []  # read once they are whole

    def begin(self, path: str, head: Any, size: float) -> list[int] | None:
        """Allocate memory for every tensor of the safetensors or GGUF file `path`.

        Returns a flat list with the file offset, length, kind and place of each tensor. A place is
        an address of the heap, a buffer of the port, or a number for `open`. Returns None if `head`
        ends before the header does (a GGUF file does not state the header's length). Raises
        FormatError if the header does not describe a file of `size` bytes, or names a tensor that
        another file has already.
        """
        source = Head(path, head.to_bytes(), int(size))
        if path.lower().endswith(".gguf"):
            try:
                gguf = read_gguf(source)
            except TruncatedError:
                if len(source.head) < min(source.size, MAX_HEADER):
                    return None
                raise
            table = gguf.table
            self._ggufs.append((path, gguf))
        else:
            table = read_table(source)
        self._check_new(path, table.entries)
        return self._rows([table])

    def _rows(self, tables: list[Table]) -> list[int]:
        """The places of the first table's tensors on the device, and of the others' on the heap."""
        ways: list[Destination] = ["heap" if self.stream is None else "device", "heap"]
        steps = load_schedule(tables, ways[: len(tables)])
        self.check_room(steps)
        return self.rows(steps)

    def check_room(self, steps: LoadSchedule) -> None:
        """Raise DeviceMemoryError for tensors that the device cannot hold together."""
        if self.stream is not None:
            sizes = [s.nbytes for s in steps if s.destination == "device"]
            self.stream.check_room(sum(sizes), max(sizes, default=0))

    def rows(self, steps: LoadSchedule) -> list[int]:
        """Allocate memory for tensors; returns rows as `begin`. MemoryError if the heap is full."""
        return [word for step in steps for word in (step.offset, step.nbytes, *self._place(step))]

    def look(self, path: str, size: float, offset: float, data: Any) -> list[int] | None:
        """Bytes from `offset` on of a file of PyTorch or NumPy, whose header is in several places.

        Returns the range (offset, length) to give next; an empty list at the end, after which
        `begin_stored` allocates; None for a file that has to be read whole (`add_file`).
        """
        if offset == 0:
            self._held = Held(path, int(size))
        self._held.add(int(offset), data.to_bytes())
        storages = self._held.run(read_storages)
        if isinstance(storages, tuple):
            return list(storages)
        self._stored = storages
        return None if storages is None else []

    def begin_stored(self) -> list[int]:
        """Allocate memory for the tensors of the file that `look` was given.

        Returns the number of records of its zip (see `Stored`), their offsets, and rows as `begin`.
        """
        stored = self._stored
        assert stored is not None
        self._check_new(self._held.name, stored.views)
        before, self.tensors = self.tensors, {}
        rows = self._rows([stored.plain, stored.others])
        placed, self.tensors = self.tensors, before
        for name, (key, layout) in stored.views.items():
            self.tensors[name] = Tensor(placed[key].storage, placed[key].dtype, layout)
        self.tensors |= {name: tensor(number) for name, number in stored.numbers.items()}
        for offset, count in stored.counts:
            data = np.zeros(len(count), np.uint8)
            self._counts.append((self._held.name, offset, data, count))
            rows += [offset, len(count), HEAP, data.ctypes.data]
        return [len(stored.records), *stored.records, *rows]

    def _place(self, step: LoadStep) -> tuple[int, int]:
        """Kind and place of a tensor's bytes. Blocks get their memory when their bytes arrive."""
        if step.destination == "heap":
            data = np.empty(step.nbytes, np.uint8)
            if is_narrow(step.dtype):
                self._narrow.append((data, step))
            self.tensors[step.name] = tensor_of(data, step.dtype, step.shape)
            if step.swapped:
                self._swapped.append((data, step.dtype))
            return HEAP, data.ctypes.data
        if step.dtype.kind == "q":
            self._blocks.append(step)
            return BLOCKS, len(self._blocks) - 1
        assert self.stream is not None
        buffer, number = self.stream.buffer(step.nbytes, step.dtype)
        self._hold(step, buffer)
        return BUFFER, number

    def _hold(self, step: LoadStep, buffer: Any) -> None:
        storage = Storage(self.device, buffer, step.nbytes)
        self.tensors[step.name] = Tensor(storage, step.dtype, Layout.contiguous(step.shape))

    def open(self, number: int) -> list[int]:
        """Start a tensor of blocks; returns the buffer for its bytes and the bytes per piece."""
        assert self.stream is not None
        step = self._blocks[number]
        buffer, staging, capacity = self.stream.begin_blocks(math.prod(step.shape), step.dtype)
        self._hold(step, buffer)
        return [staging, capacity]

    def commit(self, nbytes: int) -> None:
        """Repack the bytes in that buffer, after which it may be written to again."""
        assert self.stream is not None
        self.stream.commit_blocks(nbytes)

    async def check(self) -> None:
        """Wait for the device; raises its errors."""
        await self.device.synchronize_async()

    def add_file(self, path: str, content: Any) -> None:
        """Keep one of the small files, or take the tensors of a file of PyTorch or NumPy."""
        weights = path.lower().endswith((".bin", ".pt", ".pth", ".npz"))
        if "/" in path or not weights or SHORTLIST.fullmatch(path):
            self.files[path] = content.to_bytes()
            return
        tensors = load_weights(BytesSource(bytearray(content.to_bytes()), path))[0]
        self._check_new(path, tensors)
        self.tensors |= tensors

    def add_graph(self, path: str, file: Any) -> None:
        """Keep a file of ONNX, which is read once it is known to be needed."""
        self.graphs[path] = file

    def _check_new(self, path: str, names: Mapping[str, Any]) -> None:
        if again := names.keys() & self.tensors.keys():
            raise FormatError(f'{path}: tensor "{min(again)}" is in another file already')

    def parts(self) -> Parts:
        """Small files, tensors and a GGUF file's metadata, when all bytes are in their places.

        Raises FormatError if parts of a split file are missing, and for a storage of a file of
        PyTorch that says of itself another size than the pickle before it.
        """
        for name, offset, data, count in self._counts:
            if data.tobytes() != count:
                raise FormatError(
                    f"{name}: the storage at byte {offset} says that it has another size than the "
                    "file's pickle says",
                    hint="the file is damaged; download it again",
                )
        self._counts.clear()
        for data, dtype in self._swapped:
            swap_bytes(data, dtype)
        self._swapped.clear()
        for data, step in self._narrow:
            self.tensors[step.name] = tensor_of(data, step.dtype, step.shape)
        self._narrow.clear()
        return self.files, self.tensors, whole_metadata(self._ggufs) if self._ggufs else None

    def hash(self) -> Sha256:
        """The SHA-256 that weights.js checks downloads with."""
        return Sha256()


class Sha256:
    """An incremental SHA-256 with the method names of hash-wasm."""

    def init(self) -> None:
        """Start a hash."""
        self._state = hashlib.sha256()

    def update(self, data: Any) -> None:
        """Add bytes, a Uint8Array."""
        self._state.update(data.to_memoryview())

    def digest(self) -> str:
        """The hash of all bytes, in hex."""
        return self._state.hexdigest()


async def fetch_checkpoint(
    where: str,
    make: Callable[[Builder], Awaitable[T]],
    progress: Callable[[int, int | None], None] | None = None,
    device: str | Device = "cpu",
    asked: Mapping[str, Any] | None = None,
) -> T:
    """What `make` makes of a model's files at a URL or hub id; graphs of ONNX it reads itself.

    progress(done, total) counts bytes. asked: the dtype and the format of graphs. Large tensors go
    into the memory of `device`, all others into the heap. A download is checked against the hash of
    the site's manifest or the hub, cached by the browser, and resumed after a break. Raises
    FetchError with the reason and a hint.

    `where` is that URL or id.
    """
    await import_modules()  # so that making the model needs no blocking wait
    import js  # type: ignore[import-not-found, unused-ignore]
    import pyodide_js  # type: ignore[import-not-found, unused-ignore]
    from pyodide.ffi import JsException, create_proxy, to_js  # type: ignore[import-not-found, unused-ignore]

    chosen = to_js(dict(asked or {}), dict_converter=js.Object.fromEntries)
    loader, weights = await import_js("loader.js"), await import_js("weights.js")
    builder = Builder(await device_async(device))
    tell = create_proxy(lambda done, total: progress and progress(done, total))
    proxy = create_proxy(builder)
    try:
        small = await loader.fetchModel(weights, str(where), proxy, pyodide_js, tell, chosen)
    except JsException as error:
        hint = f"\n  hint: {error.hint}" if getattr(error, "hint", "") else ""
        raise FetchError(f"{getattr(error, 'message', error)}{hint}") from None
    else:
        for path, content in small:
            builder.add_file(path, content)
        return await make(builder)
    finally:
        tell.destroy()
        proxy.destroy()
