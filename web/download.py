"""Checkpoints from addresses, for Python in a tab: streamed into the wasm heap, and kept there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.errors import FormatError
from rushlight.core.io.fetch import FetchError
from rushlight.core.io.gguf import TruncatedError, gguf_in, load_gguf, read_gguf
from rushlight.core.io.plan import load_plan
from rushlight.core.io.safetensors import load_safetensors, read_table
from rushlight.core.io.template import import_modules as import_templates
from rushlight.core.io.tokenizer import import_modules
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


class Builder:
    """A checkpoint being read: buffers in the wasm heap, which JavaScript fills."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.tensors: dict[str, Tensor] = {}
        # Of a GGUF file, which has no small files beside it.
        self.metadata: dict[str, Any] | None = None

    def begin(self, path: str, head: Any, size: float) -> list[int] | None:
        """Allocate one buffer per tensor of the safetensors or GGUF file `path`.

        Returns file offset, length and address of each, flat; None where `head` ends before the
        header does (a GGUF file does not say how long it is). Raises FormatError when the header
        does not describe a file of `size` bytes, or holds a tensor that another file holds too.
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
        rows: list[int] = []
        for step in load_plan([table], ["heap"]):
            buffer = np.empty(step.nbytes, np.uint8)
            self.tensors[step.name] = Tensor.from_buffer(buffer, step.dtype, step.shape)
            rows += (step.offset, step.nbytes, buffer.ctypes.data)
        return rows

    def add_file(self, path: str, content: Any) -> None:
        """Keep one of the small files (config.json, tokenizer.json, ...)."""
        self.files[path] = content.to_bytes()


Parts = tuple[dict[str, bytes], dict[str, Tensor], dict[str, Any] | None]


async def fetch_checkpoint(
    where: str, progress: Callable[[int, int | None], None] | None = None
) -> Parts:
    """The small files, the tensors and a GGUF file's metadata of a model's address or hub id.

    progress(done, total): bytes. Downloads are hash-checked where the site's manifest or the hub
    gives a hash, kept by the browser, and taken up where they broke off. Raises FetchError with
    the reason and the way out.
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
    await import_js("sha256.js")  # leaves its functions as a global
    builder = Builder()
    tell = create_proxy(lambda done, total: progress and progress(done, total))
    begin = create_proxy(builder.begin)
    try:
        small = await loader.fetchModel(weights, str(where), begin, pyodide_js, tell)
    except JsException as error:
        hint = f"\n  hint: {error.hint}" if getattr(error, "hint", "") else ""
        raise FetchError(f"{getattr(error, 'message', error)}{hint}") from None
    finally:
        tell.destroy()
        begin.destroy()
    for path, content in small:
        builder.add_file(path, content)
    return builder.files, builder.tensors, builder.metadata
