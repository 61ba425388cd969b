"""Remote: a file of a server or of a visitor as a Source, for Python in a tab.

Its header is read by ranges, which are kept, as readers ask for the same bytes again. Then the file
is streamed once: each tensor's bytes go to their place on the heap or on the device.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urljoin

from rushlight.core.backends import Device
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.fetch import FetchError
from rushlight.core.io.weights.load_schedule import Destination, load_schedule
from rushlight.core.io.weights.table import Table
from rushlight.core.tensor.tensor import Tensor
from rushlight.web import import_js
from rushlight.web.loading.download import Builder

Progress = Callable[[int, int | None], None]
_PIECE = 1 << 16
_MOST_KEPT = 512  # pieces


class Remote:
    """A file that JavaScript reads. address: its URL, "" for a visitor's file.

    others: the files that lie beside it by name, of a visitor or of a listing.
    """

    def __init__(self, js: Any, name: str, address: str, others: Mapping[str, Any]) -> None:
        self.js, self.name, self.size = js, name, int(js.size)
        self.address, self.others = address, others
        self._pieces: OrderedDict[int, bytes] = OrderedDict()

    async def read_async(self, offset: int, n: int) -> bytes:
        """The bytes [offset, offset + n). FetchError if the server does not give them."""
        for start, piece in reversed(self._pieces.items()):
            if start <= offset and offset + n <= start + len(piece):
                self._pieces.move_to_end(start)
                return piece[offset - start : offset - start + n]
        module = await import_js("remote.js")
        count = min(max(n, _PIECE), self.size - offset)
        data: bytes = (await _told(module.read(self.js, offset, count))).to_bytes()
        if len(data) <= 4 * _PIECE:
            self._pieces[offset] = data
            if len(self._pieces) > _MOST_KEPT:
                self._pieces.popitem(last=False)
        return data[:n]

    def read(self, offset: int, n: int) -> bytes:
        """Refuse: only `read_async` brings bytes."""
        raise NotImplementedError(f"{self.name}: bytes {offset} to {offset + n} need read_async")

    async def beside(self, location: str) -> Remote:
        """A file beside this one, by its relative address. Raises as `open_remote`."""
        name = unquote(location).rpartition("/")[2]
        if self.address and name not in self.others:
            return await open_remote(urljoin(self.address, location))
        if name not in self.others:
            raise FormatError(
                f"{self.name}: tensors lie in the file {name}, which is missing",
                hint="choose it together with the model",
            )
        return await open_remote(self.others[name], name)

    def close(self) -> None:
        """Forget the pieces that were read."""
        self._pieces.clear()


async def open_remote(
    where: Any, name: str = "", others: Mapping[str, Any] | None = None
) -> Remote:
    """A file by its address, relative to the page's, or a Blob or a file's row of JavaScript.

    where: one of these. name: for messages; by default the address. others: files by name, beside
    this one. FetchError, with a hint, for a server that does not answer or has no such file.
    """
    module = await import_js("remote.js")
    address = where if isinstance(where, str) else getattr(where, "url", None)
    address = str(module.absolute(address)) if address else ""
    told = name or address or str(getattr(where, "name", "the file"))
    return Remote(await _told(module.open(where, told)), told, address, others or {})


async def _told(promise: Any) -> Any:
    """What a promise gives; its error as a FetchError."""
    from pyodide.ffi import JsException  # type: ignore[import-not-found, unused-ignore]

    try:
        return await promise
    except JsException as error:
        hint = getattr(error, "hint", "") or None
        raise FetchError(str(getattr(error, "message", error)), hint=hint) from None


async def stream_tensors(
    tables: Sequence[Table],
    ways: Sequence[Destination],
    sources: Sequence[Remote],
    device: Device,
    progress: Progress | None = None,
) -> dict[str, Tensor]:
    """The tensors of each of `tables`, which lie in the one of `sources` of the same number.

    progress: told the bytes that came, of how many. ways: for each table "device" or "heap"; small
    tensors go by way of the heap. Memory is taken for all of them before the first byte is asked
    for: MemoryError, DeviceMemoryError. FetchError for a download that fails.
    """
    import pyodide_js  # type: ignore[import-not-found, unused-ignore]
    from pyodide.ffi import create_proxy, to_js  # type: ignore[import-not-found, unused-ignore]

    module, builder = await import_js("remote.js"), Builder(device)
    steps = load_schedule(tables, [w if builder.stream else "heap" for w in ways])
    builder.check_room(steps)
    rows: dict[int, list[int]] = {}
    files: dict[int, Remote] = {}
    try:
        for step in steps:
            source = sources[step.file_index]
            files[id(source)] = source
            rows.setdefault(id(source), []).extend(builder.rows([step]))
    except MemoryError as error:
        total = sum(step.nbytes for step in steps if step.destination == "heap")
        raise MemoryError(
            f"weights of {total / 1e9:.1f} GB do not fit in the memory of a tab; use webgpu, whose "
            "memory lies elsewhere, or a file with fewer bits per weight"
        ) from error
    done, total = 0, sum(source.size for source in files.values())

    def tell(count: int, _: Any = None) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    proxies = [create_proxy(tell), create_proxy(builder)]
    try:
        for key, source in files.items():
            flat = to_js(rows[key])
            await _told(module.stream(source.js, flat, proxies[1], pyodide_js, proxies[0]))
    finally:
        for proxy in proxies:
            proxy.destroy()
    return builder.parts()[1]
