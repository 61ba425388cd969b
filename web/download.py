"""Checkpoints from addresses, for Python in a tab: streamed into the memory of their device."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.backends import Device, device_async
from rushlight.core.backends import device as as_device
from rushlight.core.errors import DeviceMemoryError, FormatError
from rushlight.core.io.fetch import FetchError
from rushlight.core.io.gguf import TruncatedError, gguf_in, load_gguf, read_gguf
from rushlight.core.io.plan import Step, load_plan
from rushlight.core.io.safetensors import load_safetensors, read_table
from rushlight.core.io.template import import_modules as import_templates
from rushlight.core.io.tokenizer import import_modules
from rushlight.core.layout import Layout
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor
from rushlight.web import import_js

# A GGUF header that is longer than this is not waited for.
LONGEST_HEADER = 256 << 20


class Head:
    """A Source over the first bytes of a file: enough for a reader of headers."""

    def __init__(self, name: str, head: bytes, size: int) -> None:
        self.name, self.head, self.size = name, head, size

    def read(self, offset: int, n: int) -> bytes:
        """The bytes that are there; fewer than `n` past the head's end."""
        return self.head[offset : offset + n]

    async def read_async(self, offset: int, n: int) -> bytes:
        """As `read`."""
        return self.read(offset, n)

    def close(self) -> None:
        """Nothing is open."""


def release(device: Device) -> None:
    """Have a webgpu device give back the memory that nothing uses."""
    backend: Any = device.backend
    if backend.port.lost is None:
        with backend.lock:
            backend.recorder.flush()
            backend.pool.trim(0)
            backend.recorder.flush()  # forgets the bind groups of what is gone


# What JavaScript does with a tensor's bytes: puts them at an address of the heap, writes them to a
# buffer of the GPU, or has them repacked in pieces.
HEAP, BUFFER, BLOCKS = range(3)


class Builder:
    """A checkpoint being read: memory on the heap and the device, which JavaScript fills.

    A webgpu device has been opened before. `port` is its JavaScript side, None on cpu.
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = as_device(device)
        backend: Any = self.device.backend
        self.backend = backend
        self.port = backend.port.js if self.device.type == "webgpu" else None
        self.files: dict[str, bytes] = {}
        self.tensors: dict[str, Tensor] = {}
        # Of a GGUF file, which has no small files beside it.
        self.metadata: dict[str, Any] | None = None
        self._blocks: list[Step] = []
        self._writer: Any = None

    def begin(self, path: str, head: Any, size: float) -> list[int] | None:
        """Allocate memory for every tensor of the safetensors or GGUF file `path`.

        Returns file offset, length, kind and place of each, flat: an address of the heap, a buffer
        of the port, or a number for `open`. None where `head` ends before the header does (a GGUF
        file does not say how long it is). Raises FormatError when the header does not describe a
        file of `size` bytes, or holds a tensor that another file holds too.
        """
        source = Head(path, head.to_bytes(), int(size))
        if path.lower().endswith(".gguf"):
            try:
                gguf = read_gguf(source)
            except TruncatedError:
                if len(source.head) < min(source.size, LONGEST_HEADER):
                    return None
                raise
            table, self.metadata = gguf.table, gguf.metadata
        else:
            table = read_table(source)
        if again := table.entries.keys() & self.tensors.keys():
            raise FormatError(f'{path}: tensor "{min(again)}" is in another file already')
        steps = load_plan([table], ["heap" if self.port is None else "device"])
        self._check_budget(sum(s.nbytes for s in steps if s.destination == "device"))
        return [word for step in steps for word in (step.offset, step.nbytes, *self._place(step))]

    def _check_budget(self, nbytes: int) -> None:
        """Refuse before anything is downloaded what would not fit in the end."""
        pool = None if self.port is None else self.backend.pool
        if pool is not None and pool.budget is not None and pool.used + nbytes > pool.budget:
            raise DeviceMemoryError(
                f"webgpu: the model's {nbytes} bytes exceed the memory budget of {pool.budget}"
            )

    def _place(self, step: Step) -> tuple[int, int]:
        """Kind and place of a tensor's bytes; blocks get their memory when they come."""
        if step.destination == "heap":
            data = np.empty(step.nbytes, np.uint8)
            self.tensors[step.name] = Tensor.from_buffer(data, step.dtype, step.shape)
            return HEAP, data.ctypes.data
        if step.dtype.kind == "q":
            self._blocks.append(step)
            return BLOCKS, len(self._blocks) - 1
        buffer = self.backend.allocate(step.nbytes, step.dtype, write=True)
        self._hold(step, buffer)
        return BUFFER, buffer.handle

    def _hold(self, step: Step, buffer: Any) -> None:
        storage = Storage(self.device, buffer, step.nbytes)
        self.tensors[step.name] = Tensor(storage, step.dtype, Layout.contiguous(step.shape))

    def open(self, number: int) -> list[int]:
        """Begin with blocks: the buffer that takes their bytes, and how many at a time."""
        step = self._blocks[number]
        self._writer = self.backend.block_writer(math.prod(step.shape), step.dtype)
        self._hold(step, self._writer.buffer)
        return [self._writer.staging.handle, self._writer.capacity]

    def commit(self, nbytes: int) -> None:
        """Have the bytes in that buffer repacked; it may be written to again then."""
        with self.backend.lock:
            self._writer.commit(nbytes)
            self.backend.recorder.flush()
        if not self._writer.missing:
            self._writer = None

    async def check(self) -> None:
        """Wait for the device; raises what went wrong there."""
        await self.device.synchronize_async()

    def add_file(self, path: str, content: Any) -> None:
        """Keep one of the small files (config.json, tokenizer.json, ...)."""
        self.files[path] = content.to_bytes()

    def hash(self) -> Sha256:
        """What weights.js checks a download with."""
        return Sha256()


class Sha256:
    """An incremental SHA-256 with the names that hash-wasm gives its own."""

    def init(self) -> None:
        """Begin."""
        self._state = hashlib.sha256()

    def update(self, data: Any) -> None:
        """Take some more bytes, a Uint8Array."""
        self._state.update(data.to_memoryview())

    def digest(self) -> str:
        """The hash of all of them, in hex."""
        return self._state.hexdigest()


Parts = tuple[dict[str, bytes], dict[str, Tensor], dict[str, Any] | None]


async def fetch_checkpoint(
    where: str,
    progress: Callable[[int, int | None], None] | None = None,
    device: str | Device = "cpu",
) -> Parts:
    """The small files, the tensors and a GGUF file's metadata of a model's address or hub id.

    progress(done, total): bytes. Large tensors come into the memory of `device`, all others into
    the heap. Downloads are hash-checked where the site's manifest or the hub gives a hash, kept
    by the browser, and taken up where they broke off. Raises FetchError with the reason and the
    way out.
    """
    await import_modules()  # so that making the model needs no blocking wait
    await import_templates()
    if Path(where).exists() and (gguf := gguf_in(Path(where))):
        tensors, metadata = load_gguf(gguf)
        return {}, tensors, metadata
    if Path(where).is_dir():  # a folder of Pyodide's own file system
        folder = Path(where)
        names = [p for p in folder.rglob("*") if p.suffix in (".json", ".txt")]
        small = {p.relative_to(folder).as_posix(): p.read_bytes() for p in names}
        return small, load_safetensors(folder), None
    import pyodide_js  # type: ignore[import-not-found, unused-ignore]
    from pyodide.ffi import JsException, create_proxy  # type: ignore[import-not-found, unused-ignore]

    loader, weights = await import_js("loader.js"), await import_js("weights.js")
    builder = Builder(await device_async(device))
    tell = create_proxy(lambda done, total: progress and progress(done, total))
    proxy = create_proxy(builder)
    try:
        small = await loader.fetchModel(weights, str(where), proxy, pyodide_js, tell)
    except JsException as error:
        hint = f"\n  hint: {error.hint}" if getattr(error, "hint", "") else ""
        raise FetchError(f"{getattr(error, 'message', error)}{hint}") from None
    finally:
        tell.destroy()
        proxy.destroy()
    for path, content in small:
        builder.add_file(path, content)
    return builder.files, builder.tensors, builder.metadata
