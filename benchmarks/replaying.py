"""What benchmarks/replay.py times: the same code in a Python process and in the tab."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import rushlight as rl

DISPATCHES = 500
SIZES = (4, 16, 64)  # bytes that are read
device: Any = rl.device("webgpu")


def _step(x: rl.Tensor) -> rl.Tensor:
    for _ in range(DISPATCHES):
        x = x + 1.0
    return x


# One dispatch for each addition: nothing is fused, merged, or computed beforehand.
step = rl.jit(_step, passes=["reuse"])
given = rl.from_numpy(np.zeros(16, np.float32)).to("webgpu")
small = {n: rl.from_numpy(np.arange(n // 4, dtype=np.float32)).to("webgpu") for n in SIZES}
_port = device.backend.port
_own = getattr(time, "thread_time", lambda: 0.0)  # the tab has none
_request = np.zeros(8, np.uint32)
_stops: list[Any] = []
_spent = [0.0, 0.0, 0]  # seconds, seconds of this thread, calls


def _timed(plan: int, replay: Any = _port.replay) -> None:
    began, computed = time.perf_counter(), _own()
    replay(plan)
    _spent[0] += time.perf_counter() - began
    _spent[1] += _own() - computed
    _spent[2] += 1


def check() -> None:
    """Capture, and stop where a replay gives anything but 500 additions in 500 dispatches."""
    for start in range(3):
        before = device.backend.recorder.dispatches
        found = step(given + float(start))
        if found.tolist() != [float(start + DISPATCHES)] * 16:
            raise SystemExit(f"the additions gave {found.tolist()}")
        if device.backend.recorder.dispatches - before < DISPATCHES:
            raise SystemExit("the plan has fewer dispatches than additions")
    _port.replay = _timed


def replays(count: int) -> dict[str, float]:
    """Microseconds a dispatch of calls that are replayed: in all, and within the port.

    Each waits for the one before, outside of what is timed. own: what this thread computed.
    """
    _spent[:] = [0.0, 0.0, 0]
    passed = own = 0.0
    for _ in range(count):
        device.synchronize()
        began, computed = time.perf_counter(), _own()
        step(given)
        passed += time.perf_counter() - began
        own += _own() - computed
    device.synchronize()
    if _spent[2] != count:
        raise SystemExit(f"{_spent[2]} replays in {count} calls")
    each = 1e6 / (count * DISPATCHES)
    return {"call": passed * each, "call_own": own * each, "port": _spent[0] * each,
            "port_own": _spent[1] * each}  # fmt: skip


def reads(nbytes: int, count: int) -> float:
    """Milliseconds of a blocking read of so many bytes."""
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
    """Milliseconds of a read in JavaScript, for which Python does nothing but stop."""
    from rushlight.core.backends.webgpu.browser import _waiter

    if not _stops:
        _stops.append(_waiter(plain, _request.ctypes.data))
    stop = _stops[0]
    began = time.perf_counter()
    for _ in range(count):
        if stop() is not None:
            raise SystemExit("Python did not stop")
    return (time.perf_counter() - began) * 1000 / count
