"""Devices, and the protocol that a backend of a device fulfils.

`device("cpu")` gives the one Device object of that name; its backend module is imported on first
use. A backend sees buffers, layouts and dtypes, never a Tensor's history.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.coming import Coming, Ready
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout

Bytes = npt.NDArray[np.uint8]


class Operand(Protocol):
    """What a kernel is told of a tensor: a buffer, where in it the elements lie, their dtype."""

    @property
    def buffer(self) -> Any:
        """The backend's own buffer object."""

    @property
    def layout(self) -> Layout:
        """Shape, strides and offset, in elements."""

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""


class Backend(Protocol):
    """What a device must be able to do."""

    def allocate(self, nbytes: int, dtype: DType) -> Any:
        """A new buffer for `nbytes` bytes of elements; what it holds is not defined."""

    def upload(self, data: Bytes, dtype: DType) -> Any:
        """A buffer that holds `data`, elements of `dtype`; may be `data` itself."""

    def write(self, buffer: Any, data: Bytes) -> None:
        """Write `data`, elements as a buffer holds them, over its beginning after pending work."""

    def download(self, buffer: Any, start: int, stop: int, dtype: DType) -> Bytes:
        """Bytes start to stop of a buffer, after all pending work; may share memory with it."""

    async def download_async(self, buffer: Any, start: int, stop: int, dtype: DType) -> Bytes:
        """`download` that waits without blocking."""

    def begin(self, buffer: Any, start: int, stop: int, dtype: DType) -> Coming[Bytes]:
        """Begin to read bytes start to stop of plain elements, as they are after pending work."""

    def supports(self, name: str) -> bool:
        """Whether there is a kernel for the op `name`."""

    def run(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
    ) -> None:
        """Run the op `name` into `out`, which may be the first input (an in-place form)."""

    def synchronize(self) -> None:
        """Wait for all pending work and raise what went wrong in it."""

    async def synchronize_async(self) -> None:
        """`synchronize` that waits without blocking."""

    def info(self) -> Mapping[str, Any]:
        """What the device is: name, limits and features, as far as they are known."""

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Refuse to hold more than `nbytes` bytes at once; None for no bound."""

    def close(self) -> None:
        """Free what the device holds; its tensors are lost."""


class _MetaBackend:
    """Allocates nothing and computes nothing: shapes and dtypes only."""

    def allocate(self, nbytes: int, dtype: DType) -> Any:
        return None

    def upload(self, data: Bytes, dtype: DType) -> Any:
        return None

    def write(self, buffer: Any, data: Bytes) -> None:
        return None

    def download(self, buffer: Any, start: int, stop: int, dtype: DType) -> Bytes:
        raise RuntimeError(
            "a tensor on the meta device has no values; call .init_() on its module or load "
            "weights into it, or make it on a device that computes"
        )

    async def download_async(self, buffer: Any, start: int, stop: int, dtype: DType) -> Bytes:
        return self.download(buffer, start, stop, dtype)

    def begin(self, buffer: Any, start: int, stop: int, dtype: DType) -> Coming[Bytes]:
        return Ready(self.download(buffer, start, stop, dtype))

    def supports(self, name: str) -> bool:
        return True

    def run(
        self, name: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
    ) -> None:
        return None

    def synchronize(self) -> None:
        return None

    async def synchronize_async(self) -> None:
        return None

    def info(self) -> Mapping[str, Any]:
        return {"device": "shapes and dtypes without values"}

    def set_memory_budget(self, nbytes: int | None) -> None:
        return None

    def close(self) -> None:
        return None


class Generator:
    """State of the random numbers of a device: a 64-bit seed and an offset in blocks of four."""

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from `seed` (taken modulo 2**64)."""
        self.seed, self.offset = seed % 2**64, 0
        return self

    def reserve(self, words: int) -> tuple[int, int]:
        """Seed and offset for `words` 32-bit random words, which nobody else will get."""
        with self._lock:
            offset = self.offset
            self.offset += -(-words // 4)
            return self.seed, offset


class Device:
    """A device such as `cpu` or `meta`; there is one object per device, so compare with `is`."""

    def __init__(self, type: str, index: int) -> None:
        self.type, self.index = type, index
        self.generator = Generator(_default_seed[0])
        self.epoch = 0  # counts the resets: what was made before one cannot be used after it
        self._backend: Backend | None = None
        self._lock = threading.Lock()

    @property
    def backend(self) -> Backend:
        """The device's backend, made on first use."""
        if self._backend is None:
            with self._lock:
                if self._backend is None:
                    self._backend = _make_backend(self)
        return self._backend

    async def _adopt(self, opening: Awaitable[Backend]) -> None:
        """Take the backend that is being opened, unless there is one by then."""
        backend = await opening
        with self._lock:
            if self._backend is None:
                self._backend = backend
                return
        backend.close()

    @property
    def info(self) -> Mapping[str, Any]:
        """What the device is: its name, and on webgpu the adapter's limits and features."""
        return self.backend.info()

    def synchronize(self) -> None:
        """Wait for all pending work; raises DeviceError for what went wrong in it.

        On webgpu an index that was out of range raises IndexError here, as at a read.
        """
        if self._backend is not None:
            self._backend.synchronize()

    async def synchronize_async(self) -> None:
        """`synchronize()` that waits without blocking."""
        if self._backend is not None:
            await self._backend.synchronize_async()

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Have tensors beyond `nbytes` bytes in all refused with DeviceMemoryError; None: no bound.

        Checked before the device is asked. On cpu there is no such bound: ValueError.
        """
        self.backend.set_memory_budget(nbytes)

    def reset(self) -> None:
        """Close the device and open it anew at its next use, after it was lost for instance.

        Its tensors are gone; using one raises DeviceLostError. The cpu device stays as it is.
        """
        with self._lock:
            if self._backend is not None and self.type == "webgpu":
                self._backend.close()
                self._backend = None
                self.epoch += 1

    def __repr__(self) -> str:
        return f"device({str(self)!r})"

    def __str__(self) -> str:
        return f"{self.type}:{self.index}" if self.index else self.type

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (str(self),))


def _make_backend(dev: Device) -> Backend:
    if dev.type == "meta":
        return _MetaBackend()
    if dev.type == "webgpu":
        from rushlight.core.backends.webgpu import open_backend

        return open_backend(dev.index)
    from rushlight.core.backends.cpu import CpuBackend

    return CpuBackend()


debugging = [False]
_LINEAR_MODES = ("exact", "fast")
_linear_mode = ["exact"]
_linear_here: ContextVar[str | None] = ContextVar("linear", default=None)
_TYPES = ("cpu", "meta", "webgpu")
_default_seed = [0]
_devices: dict[tuple[str, int], Device] = {}
_devices_lock = threading.Lock()


def device(name: str | Device) -> Device:
    """The device called `name` ("cpu", "webgpu", "webgpu:1", "meta"); a Device is given back.

    Raises ValueError naming the devices there are.
    """
    if isinstance(name, Device):
        return name
    kind, _, index = str(name).partition(":")
    wrong = kind not in _TYPES or (":" in str(name) and not index.isdecimal())
    if wrong or (kind != "webgpu" and int(index or 0) != 0):
        raise ValueError(f"no device {name!r}; there are: {', '.join(_TYPES)}")
    with _devices_lock:
        return _devices.setdefault((kind, int(index or 0)), Device(kind, int(index or 0)))


async def device_async(name: str | Device) -> Device:
    """`device(name)`, opened: what else happens at its first use, and needs to wait.

    In a browser that cannot wait in the middle of Python (Safari), await this once before the
    webgpu device is used; elsewhere it is not needed. DeviceError where there is no adapter.
    """
    found = device(name)
    if found.type == "webgpu" and found._backend is None:
        from rushlight.core.backends.webgpu import open_backend_async

        await found._adopt(open_backend_async(found.index))
    else:
        _ = found.backend
    return found


def manual_seed(seed: int) -> None:
    """Start the random numbers of every device, also of those used later, anew from `seed`."""
    with _devices_lock:
        _default_seed[0] = seed
        for dev in _devices.values():
            dev.generator.manual_seed(seed)


def devices() -> list[Device]:
    """The devices of this machine that compute: cpu, and one webgpu device per adapter.

    Where WebGPU cannot be asked (wgpu-py is missing, or the tab has none) there is only cpu;
    `device("webgpu").info` says why. A browser that cannot wait in the middle of Python is only
    asked for WebGPU, not for an adapter; `await device_async("webgpu")` says what it has.
    """
    from rushlight.core.backends.webgpu import count_adapters

    return [device("cpu"), *(device(f"webgpu:{i}") for i in range(count_adapters()))]


@contextmanager
def debug(enabled: bool = True) -> Iterator[None]:
    """Within this context webgpu submits every op by itself and waits for it.

    An error of the device then names exactly one op, at the line that ran it. Slow.
    """
    before, debugging[0] = debugging[0], enabled
    try:
        yield
    finally:
        debugging[0] = before


def set_num_threads(count: int) -> None:
    """Let the cpu device's C kernels use `count` threads; at first as many as there are cores.

    Results do not depend on it. In the tab there is one thread. NumPy's own products keep to the
    setting of their library (OPENBLAS_NUM_THREADS). ValueError for a count below 1 or above 64.
    """
    from rushlight.core.backends.cpu import simd

    simd.set_threads(count)


def get_num_threads() -> int:
    """How many threads the cpu device's C kernels may use."""
    from rushlight.core.backends.cpu import simd

    return simd.threads[0]


def set_linear_mode(mode: str) -> None:
    """How `linear` multiplies with block-quantized weights: "exact" (at first) or "fast".

    exact: activations stay float32. fast: they are rounded to 16 bits per 32 values on the fly
    (llama.cpp does so to 8), where the device has such a kernel; elsewhere it is exact. Generation
    sets the mode for itself (its option `linear`), as `linear_mode` does for a block of code.
    ValueError for another mode.
    """
    _linear_mode[0] = _checked(mode)


def get_linear_mode() -> str:
    """The mode of `linear_mode` in this context, else the one that `set_linear_mode` set."""
    return _linear_here.get() or _linear_mode[0]


@contextmanager
def linear_mode(mode: str) -> Iterator[None]:
    """Within this context `linear` runs in this mode; see `set_linear_mode`."""
    token = _linear_here.set(_checked(mode))
    try:
        yield
    finally:
        _linear_here.reset(token)


def _checked(mode: str) -> str:
    if mode not in _LINEAR_MODES:
        raise ValueError(f'linear mode {mode!r} is not there; the modes are "exact" and "fast"')
    return mode
