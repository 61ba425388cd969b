"""Times decoding steps, and the part of a step that is not Python's own.

On cpu that part is the C kernels, on webgpu the waiting for the device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.core.backends.cpu import simd

# The processor time of this thread, which a tab cannot read.
_spent = getattr(time, "thread_time", time.perf_counter)


class Timed:
    """The library of kernels, which records the time spent in it."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.seconds, self.calls = 0.0, 0

    def rl_run(self, words: int, count: int) -> int:
        """The call that runs every kernel."""
        began = time.perf_counter()
        code: int = self._library.rl_run(words, count)
        self.seconds += time.perf_counter() - began
        self.calls += 1
        return code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def measure(model: Any, linear: str, prompt: list[int], count: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of each step of `rounds` answers, in all and within kernels; calls per step.

    The first answer, which captures, and the first two steps of the others are left out.
    """
    library: Any = simd.library
    timed = Timed(library._lib) if library is not None else None
    if timed is not None:
        library._lib = timed
    wall: list[float] = []
    within: list[float] = []
    calls: list[int] = []
    try:
        for turn in range(rounds + 1):
            steps = model.tokens(prompt[turn:], max_new_tokens=count, linear=linear)
            next(steps)
            for place in range(1, count):
                before = (timed.seconds, timed.calls) if timed else (0.0, 0)
                began = time.perf_counter()
                if next(steps, None) is None:
                    break
                took = time.perf_counter() - began
                if turn and place > 2:
                    wall.append(took * 1000)
                    within.append((timed.seconds - before[0]) * 1000 if timed else 0.0)
                    calls.append(timed.calls - before[1] if timed else 0)
    finally:
        if timed is not None:
            library._lib = timed._library
    info = rl.device("cpu").info
    return {
        "step_ms": wall,
        "within_kernels_ms": within,
        "calls_of_the_library": calls,
        "kernels": info["kernels"],
        "linear": model.linear_in_use(linear),
        "threads": rl.get_num_threads(),
    }


class Waits:
    """Times the calls of a port that wait for the device, by the clock and by the processor."""

    def __init__(self) -> None:
        self.seconds = self.processor = 0.0
        self._within = False

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` with its time recorded; a nested call is not counted again."""

        def timed(*given: Any) -> Any:
            if self._within:
                return call(*given)
            self._within = True
            began, spent = time.perf_counter(), _spent()
            try:
                return call(*given)
            finally:
                self._within = False
                self.seconds += time.perf_counter() - began
                self.processor += _spent() - spent

        return timed

    def around_async(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A coroutine function with its time recorded."""

        async def timed(*given: Any) -> Any:
            began = time.perf_counter()
            try:
                return await call(*given)
            finally:
                self.seconds += time.perf_counter() - began

        return timed


class _Timed:
    """An object of which some methods are replaced."""

    def __init__(self, inner: Any, **methods: Any) -> None:
        self.__dict__.update(methods, _inner=inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def measure_webgpu(
    model: Any, linear: str, prompt: list[int], count: int, rounds: int
) -> dict[str, Any]:
    """Milliseconds of each step on webgpu: in all, waiting for the device, and Python's own.

    Natively a submit on a software adapter waits for the one before, so it counts as waiting. The
    rest of starting a read does not. Python's own time is the processor time of its thread, which
    other work on the machine hardly changes. In the tab it is the clock's time without waiting.
    """
    port: Any = model.device.backend.port
    waits = Waits()
    if sys.platform == "emscripten":
        place, name, usual = port, "js", port.js
        wait = waits.around_async(usual.readings.wait)
        port.js = _Timed(usual, readings=_Timed(usual.readings, wait=wait))
    else:
        from rushlight.core.backends.webgpu.runtime.native_reading import Reading

        place, name, usual = port._encoding, "checked", port._encoding.checked
        submit = waits.around(usual.wgpuQueueSubmit)
        port._encoding.checked = _Timed(usual, wgpuQueueSubmit=submit)
        usual_wait = Reading.wait
        Reading.wait = waits.around(usual_wait)  # type: ignore[method-assign]
    wall: list[float] = []
    waiting: list[float] = []
    own_ms: list[float] = []
    try:
        for turn in range(rounds + 1):
            place_in_answer = 0
            options = {"max_new_tokens": count, "linear": linear}
            began, spent, before = 0.0, 0.0, (0.0, 0.0)
            async for _ in model.tokens_async(prompt[turn:], **options):
                place_in_answer += 1
                now, cpu = time.perf_counter(), _spent()
                if turn and place_in_answer > 3 and place_in_answer < count:
                    wall.append(1000 * (now - began))
                    waiting.append(1000 * (waits.seconds - before[0]))
                    outside = cpu - spent - (waits.processor - before[1])
                    own_ms.append(
                        wall[-1] - waiting[-1] if sys.platform == "emscripten" else 1000 * outside
                    )
                began, spent, before = now, cpu, (waits.seconds, waits.processor)
    finally:
        setattr(place, name, usual)
        if sys.platform != "emscripten":
            Reading.wait = usual_wait  # type: ignore[method-assign]
    executables = [
        e.body.executable for e in model._session._next.executables.values() if e.body is not None
    ]
    return {
        "step_ms": wall,
        "waiting_ms": waiting,
        "own_ms": own_ms,
        "linear": linear,
        "adapter": str(model.device.info["device"]),
        "dispatches": [len(p.ops) for p in executables],
    }
