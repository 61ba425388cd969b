"""One token at a time: how long a step takes, and how much of that is within the C kernels."""

from __future__ import annotations

import time
from typing import Any

import rushlight as rl
from rushlight.core.backends.cpu import simd


class Timed:
    """The library of kernels, with the time that is spent in it."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.seconds, self.calls = 0.0, 0

    def rl_run(self, words: int, count: int) -> int:
        """The call that every kernel runs in."""
        began = time.perf_counter()
        code: int = self._library.rl_run(words, count)
        self.seconds += time.perf_counter() - began
        self.calls += 1
        return code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


def measure(model: Any, linear: str, prompt: list[int], count: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of each step of `rounds` answers, in all and within kernels; calls of a step.

    The first answer, which captures, is left out, and so are the first two steps of the others.
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
    return {"step_ms": wall, "within_kernels_ms": within, "calls_of_the_library": calls,
            "kernels": info["kernels"], "linear": model.linear_in_use(linear),
            "threads": rl.get_num_threads()}  # fmt: skip
