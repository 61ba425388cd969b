"""Measuring an adapter's ceilings: bytes copied and operations computed per second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.backends.profiling import Steps, now
from rushlight.core.backends.webgpu.emit import grid
from rushlight.core.backends.webgpu.runtime.recorder import Slice
from rushlight.core.basis.errors import DeviceMemoryError

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend

_LANES = 64
_ROUND = 64  # operations of one round of a lane: eight vectors of four, a product and a sum each
_ENOUGH = 0.01  # seconds that the clock and the way to the device hardly matter in
_MOST = 512  # dispatches


class _Own(NamedTuple):
    handle: int
    nbytes: int


def measure(backend: WebGpuBackend) -> Steps[tuple[float, float]]:
    """Bytes and float32 operations per second; yields ranges to read.

    DeviceMemoryError if there is no memory for it.
    """
    on_cpu = backend.port.info["type"] == "CPU"
    most = backend.port.limits["maxStorageBufferBindingSize"]
    nbytes = min((32 if on_cpu else 64) << 20, most // 256 * 256)
    copied = yield from _seconds(backend, "ceiling_copy", "rw", nbytes, nbytes // 16, 0)
    groups, rounds = (16, 128) if on_cpu else (4096, 256)
    lanes = _LANES * groups
    done = yield from _seconds(backend, "ceiling_fma", "w", 16 * lanes, lanes, rounds)
    return 2 * nbytes / copied, _ROUND * rounds * lanes / done


def _seconds(
    backend: WebGpuBackend, file: str, access: str, nbytes: int, lanes: int, rounds: int
) -> Steps[float]:
    """Seconds of a dispatch: the time of many minus the time of one."""
    port, pool = backend.port, backend.pool
    if pool.budget is not None and pool.used + len(access) * nbytes > pool.budget:
        raise DeviceMemoryError("profile: the memory budget leaves no memory for measuring")
    # Not the pool's, which would keep them.
    buffers = [_Own(port.buffer(nbytes), nbytes) for _ in access]
    bindings: Any = [Slice(buffer, 0, nbytes) for buffer in buffers]  # type: ignore[arg-type]

    def best(count: int) -> Steps[float]:
        times = []
        for _ in range(3):
            with backend.lock:
                backend.recorder.flush()
                e = backend.emitter("ceiling")
                began = now()
                for _ in range(count):
                    kernel = e.kernel(file, access)
                    e.dispatch(kernel, bindings, [lanes, rounds], grid(-(-lanes // _LANES)))
                backend.recorder.flush()
            yield [(buffers[-1].handle, 0, 4)]
            times.append(now() - began)
        return min(times)

    try:
        once = yield from best(1)
        count = 2
        while True:
            more = yield from best(count)
            if more - once > _ENOUGH or count >= _MOST:
                return max(more - once, 1e-9) / (count - 1)
            count *= 4
    finally:
        with backend.lock:
            for buffer in buffers:
                port.free(buffer.handle)
                pool.forget.append(buffer.handle)
            backend.recorder.flush()
