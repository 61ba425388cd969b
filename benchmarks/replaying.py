"""The code that benchmarks/replay.py times, in a Python process and in the tab."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import rushlight as rl

DISPATCHES = 500
SIZES = (4, 16, 64)  # bytes of a read
device: Any = rl.device("webgpu")


def _step(x: rl.Tensor) -> rl.Tensor:
    for _ in range(DISPATCHES):
        x = x + 1.0
    return x


# One dispatch per addition: nothing is fused, merged, or computed in advance.
step = rl.jit(_step, passes=["reuse"])
given = rl.from_numpy(np.zeros(16, np.float32)).to("webgpu")
small = {n: rl.from_numpy(np.arange(n // 4, dtype=np.float32)).to("webgpu") for n in SIZES}
_port = device.backend.port
_own = getattr(time, "thread_time", lambda: 0.0)  # the tab does not have it
_request = np.zeros(8, np.uint32)
_stops: list[Any] = []
_spent = [0.0, 0.0, 0]  # seconds, seconds of this thread, calls


def _timed(number: int, replay: Any = _port.replay) -> None:
    began, computed = time.perf_counter(), _own()
    replay(number)
    _spent[0] += time.perf_counter() - began
    _spent[1] += _own() - computed
    _spent[2] += 1


def check() -> None:
    """Capture; stop if a replay is not 500 additions in 500 dispatches."""
    for start in range(3):
        before = device.backend.recorder.dispatches
        out = step(given + float(start))
        if out.tolist() != [float(start + DISPATCHES)] * 16:
            raise SystemExit(f"the additions gave {out.tolist()}")
        if device.backend.recorder.dispatches - before < DISPATCHES:
            raise SystemExit("the list has fewer dispatches than additions")
    _port.replay = _timed


def replays(count: int) -> dict[str, float]:
    """Microseconds per dispatch of replayed calls: in all, and within the port.

    Each call waits for the one before, outside of the timed part. own: the thread's processor time.
    """
    _spent[:] = [0.0, 0.0, 0]
    passed = python_s = 0.0
    for _ in range(count):
        device.synchronize()
        began, computed = time.perf_counter(), _own()
        step(given)
        passed += time.perf_counter() - began
        python_s += _own() - computed
    device.synchronize()
    if _spent[2] != count:
        raise SystemExit(f"{_spent[2]} replays in {count} calls")
    each = 1e6 / (count * DISPATCHES)
    return {
        "call": passed * each,
        "call_own": python_s * each,
        "port": _spent[0] * each,
        "port_own": _spent[1] * each,
    }


def reads(nbytes: int, count: int) -> float:
    """Milliseconds of a blocking read of `nbytes` bytes."""
    tensor = small[nbytes]
    began = time.perf_counter()
    for _ in range(count):
        tensor.numpy()
    return (time.perf_counter() - began) * 1000 / count


async def awaited(nbytes: int, count: int) -> float:
    """`reads` by `await`."""
    tensor = small[nbytes]
    began = time.perf_counter()
    for _ in range(count):
        await tensor.numpy_async()
    return (time.perf_counter() - began) * 1000 / count


def stopped(plain: Any, count: int) -> float:
    """Milliseconds of a read in JavaScript, for which Python is only suspended."""
    from rushlight.core.backends.webgpu.runtime.browser import _waiter

    if not _stops:
        _stops.append(_waiter(plain, _request.ctypes.data))
    stop = _stops[0]
    began = time.perf_counter()
    for _ in range(count):
        if stop() is not None:
            raise SystemExit("Python was not suspended")
    return (time.perf_counter() - began) * 1000 / count
