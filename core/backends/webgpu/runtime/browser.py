"""The port over the tab's WebGPU: integers that are passed to web/gpu/gpu.js.

A command list crosses into JavaScript in one call, by its address in the WebAssembly memory.
"""

from __future__ import annotations

import ctypes
import json
import struct
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rushlight.core.backends.protocol import Bytes
from rushlight.core.backends.readback import Readback
from rushlight.core.backends.webgpu.runtime.port import STRIDE, Range, even, lost, summary
from rushlight.core.basis.errors import BlockingReadError, DeviceError, DeviceMemoryError

R = TypeVar("R")
# A request to web/gpu/readings.js: a read that was begun (or 0), the address and number of the rows
# of a new one, bytes, the address to put them at, and a row.
_REQUEST = struct.Struct("8I")
_EVERYTHING = 2**32 - 1  # no read, but all that was submitted
_LANDING = 4096
_methods: list[object] = []  # of the C functions that wait: CPython keeps addresses of them


def can_wait() -> bool:
    """Whether Python can block here (JavaScript Promise Integration)."""
    from pyodide.ffi import can_run_sync  # type: ignore[import-not-found, unused-ignore]

    return bool(can_run_sync())


def has_webgpu() -> bool:
    """Whether this tab has an adapter; without JSPI, whether it has WebGPU."""
    from pyodide.code import run_js  # type: ignore[import-not-found, unused-ignore]

    gpu = run_js("globalThis.navigator?.gpu")
    return bool(gpu and (not can_wait() or _run(gpu.requestAdapter())))


def _run(waiting: Awaitable[R]) -> R:
    from pyodide.ffi import run_sync

    result: R = run_sync(waiting)
    return result


def open_port(index: int = 0) -> BrowserPort:
    """The port of the tab's adapter; waits for it, which needs JavaScript Promise Integration.

    Raises BlockingReadError without it, DeviceError if there is no adapter.
    """
    if not can_wait():
        raise BlockingReadError(
            "webgpu: opening the device would block, and this browser cannot wait in the middle "
            "of Python",
            hint='`await rl.device_async("webgpu")` once, before the device is used',
        )
    return _run(open_port_async(index))


async def open_port_async(index: int = 0) -> BrowserPort:
    """The port of the tab's adapter. Raises DeviceError with a hint if there is none."""
    if index:
        raise DeviceError(
            f"webgpu: adapter {index} is not available; a tab has only the browser's choice",
            hint='use device="webgpu"',
        )
    import pyodide_js  # type: ignore[import-not-found, unused-ignore]
    from pyodide.ffi import JsException

    from rushlight.web import import_js

    module = await import_js("gpu.js")
    try:
        return BrowserPort(await module.open(pyodide_js))
    except JsException as error:
        text, hint = getattr(error, "message", str(error)), getattr(error, "hint", None)
        way = f'{hint}, or use device="cpu"' if hint else None
        raise DeviceError(f"webgpu: {text}", hint=way) from None


class BrowserPort:
    """One device of the tab. See the protocol in port.py.

    WebGPU in a browser reports errors after the call, so they are raised at the next read.
    """

    def __init__(self, js: Any) -> None:
        self.js = js
        info = json.loads(js.info)
        self.info: Mapping[str, str] = {
            "vendor": info["vendor"],
            "device": info["device"],
            "description": info["description"],
            "backend": "browser",
            "type": info["type"],
            "architecture": info["architecture"],
        }
        self.limits: Mapping[str, int] = json.loads(js.limits)
        self.features = frozenset(js.features.split())
        self.created = {"buffers": 0, "bytes": 0, "groups": 0, "pipelines": 0}
        self.destroyed = {"buffers": 0, "bytes": 0, "groups": 0}
        self._sizes: dict[int, int] = {}
        # The ops of batches whose errors may still arrive.
        self._ops: dict[int, Sequence[str]] = {}
        self.log: list[Sequence[str]] | None = None
        self._batches: deque[tuple[int, Sequence[str]]] = deque(maxlen=1024)
        self._request = bytearray(_REQUEST.size)
        self._landing = np.empty(_LANDING, np.uint8)  # what is larger has memory of its own
        self._landed: int = self._landing.ctypes.data
        address = np.frombuffer(self._request, np.uint8).ctypes.data
        self._row = address + 5 * 4
        self._stop = _waiter(js.readings, address)

    @property
    def lost(self) -> str | None:
        """Why the device was lost, or None while it works."""
        return str(self.js.lost) or None

    def _guard(self, call: Callable[..., R], *arguments: Any) -> R:
        """Call JavaScript and convert its exceptions."""
        from pyodide.ffi import JsException

        try:
            return call(*arguments)
        except JsException as error:
            self._raise()
            raise DeviceError(f"webgpu: {getattr(error, 'message', error)}") from error

    def _raise(self) -> None:
        """Raise the first error since the last read, if any."""
        told = self.js.problem()
        if not told:
            return
        problem = json.loads(told)
        kind, text = problem["kind"], " ".join(problem["message"].split())
        if kind == "lost":
            raise lost(text)
        ops = next((ops for batch, ops in self._batches if batch == problem["batch"]), ())
        what = f"{summary(ops)}: " if ops else ""
        if kind == "memory":
            raise DeviceMemoryError(f"{what}webgpu: out of memory: {text}")
        raise DeviceError(f"{what}webgpu: {text}")

    def buffer(self, nbytes: int) -> int:
        """A new storage buffer."""
        handle: int = self._guard(self.js.buffer, nbytes)
        self._sizes[handle] = nbytes
        self.created["buffers"] += 1
        self.created["bytes"] += nbytes
        return handle

    def free(self, buffer: int) -> None:
        """Destroy a buffer."""
        self.destroyed["buffers"] += 1
        self.destroyed["bytes"] += self._sizes.pop(buffer)
        self.js.free(buffer)

    def write(self, buffer: int, offset: int, data: Bytes) -> None:
        """Write to a buffer before all work that is not yet submitted."""
        if data.size:
            self._guard(self.js.write, buffer, offset, data.ctypes.data, data.size)

    def read(self, ranges: Sequence[Range]) -> list[Bytes]:
        """Contents of some ranges; blocks. BlockingReadError without JSPI."""
        if self._stop is None:
            _check_waits()
            return self.begin(ranges).wait()
        last = self._last()
        if len(ranges) == 1:
            [(buffer, offset, total)] = ranges
            data = self._stopped(0, total, self._row, 1, buffer, offset)
        else:
            rows = array("I", [word for r in ranges for word in r])
            total = sum([n for _, _, n in ranges])
            data = self._stopped(0, total, rows.buffer_info()[0], len(ranges))
        return self._parts(data, ranges, last)

    def _stopped(
        self,
        asked: int,
        total: int,
        rows: int = 0,
        count: int = 0,
        buffer: int = 0,
        offset: int = 0,
    ) -> Bytes:
        """Stop until `total` bytes are there: of the read `asked`, or (0) of some rows.

        rows: where they stand, `count` of them; the request has room for one itself.
        """
        assert self._stop is not None
        landing = np.empty(total, np.uint8) if total > _LANDING else None
        to = self._landed if landing is None else landing.ctypes.data
        _REQUEST.pack_into(self._request, 0, asked, rows, count, total, to, buffer, offset, total)
        finished = self._stop()
        if finished is not None:
            if not finished:
                raise _blocking()
            self._raise()
        return self._landing[:total].copy() if landing is None else landing

    def _last(self) -> int:
        """The number of the newest batch."""
        return self._batches[-1][0] if self._batches else -1

    def _parts(self, data: Bytes, ranges: Sequence[Range], last: int) -> list[Bytes]:
        """The ranges that were read; batches that are known to have succeeded are forgotten."""
        while self._batches and self._batches[0][0] <= last:
            self._batches.popleft()
        if len(ranges) == 1:
            return [data]
        pieces, offset = [], 0
        for _, _, n in ranges:
            pieces.append(data[offset : offset + n])
            offset += n
        return pieces

    def begin(self, ranges: Sequence[Range]) -> _Reading:
        """Begin to read ranges as they are now; the copy is submitted at once."""
        return _Reading(self, ranges)

    def read_async(self, ranges: Sequence[Range]) -> Coroutine[Any, Any, list[Bytes]]:
        """`read` without blocking."""
        return self.begin(ranges).later()

    def pipeline(self, source: str, access: str, label: str) -> int:
        """Compile WGSL; the compiler's errors are raised at the next read."""
        self.created["pipelines"] += 1
        handle: int = self._guard(self.js.pipeline, source, access, label)
        return handle

    def bind_group(self, access: str, ranges: Sequence[Range]) -> int:
        """The buffers of group 0."""
        rows = array("I", [word for r in ranges for word in r])
        self.created["groups"] += 1
        handle: int = self._guard(self.js.group, access, rows.buffer_info()[0])
        return handle

    def free_group(self, group: int) -> None:
        """Forget a bind group."""
        self.destroyed["groups"] += 1
        self.js.freeGroup(group)

    def submit(self, commands: array[int], uniforms: bytes, ops: Sequence[str] = ()) -> None:
        """Run a command list in one pass and one submit, with one call."""
        data = np.frombuffer(uniforms, np.uint8)
        address, words = commands.buffer_info()
        batch = self._guard(self.js.submit, address, words, data.ctypes.data, data.size)
        self._submitted(batch, ops)

    def _submitted(self, batch: int, ops: Sequence[str]) -> None:
        self._batches.append((batch, ops))
        if self.log is not None:
            self.log.append(ops)
        if self.lost is not None:
            self._raise()

    def retain(self, commands: array[int], uniforms: bytes, ops: Sequence[str]) -> int:
        """Keep a command list with its parameters."""
        data = np.frombuffer(uniforms, np.uint8)
        address, words = commands.buffer_info()
        handle: int = self._guard(
            self.js.retain, address, words, data.ctypes.data, data.size, even(words // STRIDE)
        )
        self._ops[handle] = ops
        return handle

    def replay(self, number: int) -> None:
        """Run a retained command list, with one call."""
        self._submitted(self._guard(self.js.replay, number), self._ops[number])

    def patch(self, number: int, dispatch: int, group: int) -> None:
        """Replace the bind group of one dispatch of a retained command list."""
        self._guard(self.js.patch, number, dispatch, group)

    def patch_uniforms(self, number: int, offset: int, data: bytes) -> None:
        """Write parameters of a retained command list."""
        values = np.frombuffer(data, np.uint8)
        self._guard(self.js.patchUniforms, number, offset, values.ctypes.data, values.size)

    def release(self, number: int) -> None:
        """Forget a retained command list."""
        del self._ops[number]
        self.js.forget(number)

    def time(self, on: bool) -> None:
        """Begin or end to time dispatches."""
        self._guard(self.js.time, on)
        self.log = [] if on else None

    def times(self) -> tuple[list[Range], float]:
        """The ranges of the timestamps; a tick is a nanosecond."""
        words = self.js.times().to_py().tolist()
        return list(zip(words[::3], words[1::3], words[2::3], strict=True)), 1.0

    def check(self) -> None:
        """Wait for all submitted work; without JSPI errors are raised at the next read."""
        if not can_wait():
            return
        if self._stop is None:
            _run(self.check_async())
        else:
            self._stopped(_EVERYTHING, 0)

    async def check_async(self) -> None:
        """`check` without blocking."""
        await self.js.finished()
        self._raise()

    def close(self) -> None:
        """Destroy the device."""
        self.js.close()


def _check_waits() -> None:
    if not can_wait():
        raise _blocking()


def _blocking() -> BlockingReadError:
    return BlockingReadError(
        "webgpu: reading values would block, and this browser cannot wait in the middle of Python",
        hint="use `await t.numpy_async()`",
    )


class _Reading(Readback[list[Bytes]]):
    """A readback of some ranges."""

    def __init__(self, port: BrowserPort, ranges: Sequence[Range]) -> None:
        self.port, self.ranges = port, ranges
        self.total = sum([n for _, _, n in ranges])
        rows = array("I", [word for r in ranges for word in r])
        read = port.js.readings.read
        self.handle: int = port._guard(read, rows.buffer_info()[0], len(ranges), self.total)
        self.last = port._last()

    def __del__(self) -> None:
        if handle := getattr(self, "handle", 0):
            self.port.js.readings.release(handle)

    def wait(self) -> list[Bytes]:
        """The contents; blocks."""
        _check_waits()
        port = self.port
        if port._stop is None:
            try:
                _run(port.js.readings.wait(self.handle))  # of a coroutine it makes a task, too
                return self._take()
            finally:
                self._release()
        handle, self.handle = self.handle, 0  # released with the wait
        return port._parts(port._stopped(handle, self.total), self.ranges, self.last)

    async def later(self) -> list[Bytes]:
        """The contents, without blocking."""
        try:
            await self.port.js.readings.wait(self.handle)
            return self._take()
        finally:
            self._release()

    def _take(self) -> list[Bytes]:
        port = self.port
        port._raise()
        # Memory is allocated only now, so nothing writes to it after a cancelled wait.
        data = np.empty(self.total, np.uint8)
        if self.total:
            port._guard(port.js.readings.take, self.handle, data.ctypes.data)
        return port._parts(data, self.ranges, self.last)

    def _release(self) -> None:
        handle, self.handle = self.handle, 0
        self.port.js.readings.release(handle)


def _waiter(readings: Any, request: int) -> Callable[[], bool | None] | None:
    """A function that stops Python until web/gpu/readings.js answers the request in memory.

    It gives None, True where something went wrong, or False where Python cannot be stopped. None
    where this Pyodide has no place for such a function; run_sync takes longer.
    """
    place = readings.waiter(request, id(None), id(True), id(False))
    if not place:
        return None
    name = ctypes.create_string_buffer(b"wait")
    method = array("I", [ctypes.addressof(name), place, 4, 0])  # PyMethodDef, METH_NOARGS
    _methods.append((name, method))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    wait: Callable[[], bool | None] = make(method.buffer_info()[0], None, None)
    return wait
