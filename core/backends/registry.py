"""The devices by name, their random numbers, and the threads of the cpu.

`device("cpu")` returns the one Device object of that name; its backend module is imported on first
use. This is the only module that knows the backends.
"""

from __future__ import annotations

import copy
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rushlight.core.backends.protocol import Backend
from rushlight.core.basis.errors import ArgumentError


class Generator:
    """State of the random numbers of a device: a 64-bit seed and an offset in blocks of four.

    device is for programs of torch and changes nothing: a generator serves every device.
    """

    def __init__(self, seed: int | str | Device = 0, device: str | Device = "cpu") -> None:
        self._lock = threading.Lock()
        # torch's first argument is the device.
        number, self.device = (seed, device) if isinstance(seed, int) else (0, seed)
        self.manual_seed(number)

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed` (modulo 2**64)."""
        self.key, self.offset = seed % 2**64, 0
        return self

    def initial_seed(self) -> int:
        """The seed that it started from."""
        return self.key

    def __getstate__(self) -> tuple[int, int, Any]:
        return self.key, self.offset, self.device

    def __setstate__(self, state: tuple[int, int, Any]) -> None:
        self._lock = threading.Lock()
        self.key, self.offset, self.device = state

    def get_state(self) -> Any:
        """Where it is: 16 bytes as uint8, for `set_state`."""
        return states[0](self)

    def set_state(self, new_state: Any) -> Generator:
        """Go on from where `get_state` was called. ValueError for anything else."""
        states[1](self, new_state)
        return self

    graphsafe_get_state, graphsafe_set_state = get_state, set_state

    def clone_state(self) -> Generator:
        """Another generator that is where this one is."""
        return copy.copy(self)

    def seed(self) -> int:
        """Restart from a seed of the operating system, which is returned."""
        return self.manual_seed(fresh_seed()).key

    def reserve(self, words: int) -> tuple[int, int]:
        """Seed and offset for `words` 32-bit random words; no other call gets the same ones."""
        with self._lock:
            offset = self.offset
            self.offset += -(-words // 4)
            return self.key, offset

    def give_back(self, offset: int, words: int) -> None:
        """Take back the last `reserve`, whose words were not drawn, unless others came after it."""
        with self._lock:
            if self.offset == offset + -(-words // 4):
                self.offset = offset


# How the state of a generator becomes a tensor, and is set from one: core/settings/random.py.
states: list[Callable[..., Any]] = []


class _Drawing(threading.local):
    """What this thread draws from where no generator is named, in place of the device's own.

    A DataLoader sets it while a batch is read, so that threads do not share one order of numbers.
    """

    generator: Generator | None = None


drawing = _Drawing()


def fresh_seed() -> int:
    """A seed of the operating system."""
    return int.from_bytes(os.urandom(8), "little")


class _ByName(type):
    def __call__(cls, name: Any = None, index: int | None = None, *, type: Any = None) -> Device:
        return device(type if name is None else name, index)


class Device(metaclass=_ByName):
    """A device such as `cpu` or `meta`; there is one object per device, so compare with `is`.

    `Device(name)` is `device(name)`. index: the number of a GPU; None where there is only one of
    its type.

    `type` takes the place of `name`. Raises ValueError for a device that is not there.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str | Device | None = None,
            index: int | None = None,
            *,
            type: str | None = None,
        ) -> None: ...

    def _set_up(self, type: str, index: int) -> None:
        self.type, self.index = type, index if type == "webgpu" else None
        self.generator = Generator(_default_seed[0])
        # Constants that ops keep on the device. A reset drops them, as each would hold the
        # closed device.
        self.constants: dict[Any, Any] = {}
        self.scalars: deque[Any] = deque()  # the keys of those that have a buffer of their own
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
        """Use the backend that is being opened, unless another thread opened one first."""
        backend = await opening
        with self._lock:
            if self._backend is None:
                self._backend = backend
                return
        backend.close()

    @property
    def info(self) -> Mapping[str, Any]:
        """The device's name and kernels; on webgpu the adapter's limits and features."""
        return self.backend.info()

    def synchronize(self) -> None:
        """Wait for all pending work; raises DeviceError if it failed.

        On webgpu an index out of range raises IndexError here or at a read.
        """
        if self._backend is not None:
            self._backend.synchronize()

    async def synchronize_async(self) -> None:
        """`synchronize()` without blocking."""
        if self._backend is not None:
            await self._backend.synchronize_async()

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Refuse tensors beyond `nbytes` bytes in total with DeviceMemoryError; None: no bound.

        The budget is checked before the device allocates. On cpu it is not supported: ValueError.
        """
        self.backend.set_memory_budget(nbytes)

    def reset(self) -> None:
        """Close the device and reopen it at its next use, for instance after it was lost.

        Its tensors are lost; using one raises DeviceLostError. The cpu device is unchanged.
        """
        with self._lock:
            if self._backend is not None and self.type == "webgpu":
                self._backend.close()
                self._backend = None
                self.constants.clear()
                self.scalars.clear()

    def __enter__(self) -> Device:
        """Make what names no device on this one, until the block ends."""
        _made_on.set((*_made_on.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _made_on.set(_made_on.get()[:-1])

    def __repr__(self) -> str:
        number = f", index={self.index}" if self.index else ""
        return f"device(type={self.type!r}{number})"

    def __str__(self) -> str:
        return f"{self.type}:{self.index}" if self.index else self.type

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (str(self),))


def _make_backend(dev: Device) -> Backend:
    if dev.type == "meta":
        from rushlight.core.backends.meta import MetaBackend

        return MetaBackend()
    if dev.type == "webgpu":
        from rushlight.core.backends.webgpu import open_backend

        return open_backend(dev.index or 0)
    from rushlight.core.backends.cpu.backend import CpuBackend

    return CpuBackend()


KINDS = ("cpu", "meta", "webgpu")
_default_seed = [fresh_seed()]  # another in each process, as in torch
# The devices of the blocks `with device(...)` around here; the last one is the default.
_made_on: ContextVar[tuple[Device, ...]] = ContextVar("made_on", default=())
_devices: dict[tuple[str, int], Device] = {}
_devices_lock = threading.Lock()


def device(name: str | Device | None, index: int | None = None) -> Device:
    """The device `name` ("cpu", "webgpu", "webgpu:1", "meta"); a Device is returned as it is.

    None is the default device (`rl.set_default_device`). `with rl.device("webgpu"):` makes it the
    default for what is made without one. Raises ValueError with the supported devices.
    """
    if isinstance(name, Device):
        return name
    if name is None:
        made_on = _made_on.get()
        return made_on[-1] if made_on else HOST
    name = str(name) if index is None else f"{name}:{index}"
    kind, _, number = name.partition(":")
    wrong = kind not in KINDS or (":" in name and not number.isdecimal())
    if wrong or (kind != "webgpu" and int(number or 0) != 0):
        hint = "; a GPU of any maker is 'webgpu'" if kind in ("cuda", "mps", "xpu") else ""
        known = ", ".join(KINDS)
        raise ArgumentError(f"device {name!r} is not supported; supported: {known}{hint}")
    key = kind, int(number or 0)
    if key not in _devices:
        with _devices_lock:
            if key not in _devices:
                opened = object.__new__(Device)
                opened._set_up(*key)
                _devices[key] = opened
    return _devices[key]


# The device whose buffers are the process's memory: tensors from Python values are made there.
HOST = device("cpu")


def get_default_device() -> Device:
    """The device of what is made without one: cpu at first."""
    return device(None)


def set_default_device(device_: str | Device | None) -> None:
    """Make what names no device on this one, in this thread; None is cpu."""
    _made_on.set((*_made_on.get()[:-1], HOST if device_ is None else device(device_)))


async def device_async(name: str | Device) -> Device:
    """`device(name)`, opened now instead of on its first use.

    In a browser without JSPI (Safari) await this once before the webgpu device is used; elsewhere
    it is optional. DeviceError if there is no adapter.
    """
    opened = device(name)
    if opened.type == "webgpu" and opened._backend is None:
        from rushlight.core.backends.webgpu import open_backend_async

        await opened._adopt(open_backend_async(opened.index or 0))
    else:
        _ = opened.backend
    return opened


def manual_seed(seed: int) -> Generator:
    """Restart the random numbers of every device from `seed`, also of devices used later.

    Returns the generator of cpu.

    While a DataLoader reads a batch in this thread: the numbers of that batch.
    """
    if drawing.generator is not None:
        return drawing.generator.manual_seed(seed)
    with _devices_lock:
        _default_seed[0] = seed
        for dev in _devices.values():
            dev.generator.manual_seed(seed)
    return HOST.generator


def generator_states() -> list[tuple[Generator, int, int]]:
    """Where the random numbers of every device that was named are, for `restore_generators`."""
    return [(g, g.key, g.offset) for g in (d.generator for d in instantiated())]


def restore_generators(states: list[tuple[Generator, int, int]]) -> None:
    """Go on from where `generator_states` was called."""
    for generator, key, offset in states:
        generator.key, generator.offset = key, offset


def instantiated() -> list[Device]:
    """Every device that was named so far."""
    with _devices_lock:
        return list(_devices.values())


def devices() -> list[Device]:
    """The devices of this machine that compute: cpu, and one webgpu device per adapter.

    If WebGPU is not available (wgpu-py is missing, or the tab has none) the list is cpu only;
    `device("webgpu").info` says why. A browser without JSPI is only checked for WebGPU, not for an
    adapter; `await device_async("webgpu")` checks for one.
    """
    from rushlight.core.backends.webgpu import count_adapters

    return [device("cpu"), *(device(f"webgpu:{i}") for i in range(count_adapters()))]


def set_num_threads(count: int) -> None:
    """Let the cpu device's C kernels use `count` threads; the default is the number of cores.

    Results do not depend on it. The tab has one thread. NumPy's products use the setting of their
    library (OPENBLAS_NUM_THREADS). ValueError for a count below 1 or above 64.
    """
    from rushlight.core.backends.cpu import simd

    simd.set_threads(count)


def get_num_threads() -> int:
    """The number of threads that the cpu device's C kernels may use."""
    from rushlight.core.backends.cpu import simd

    return simd.threads[0]
