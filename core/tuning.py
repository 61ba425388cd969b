"""Have the kernels of a webgpu device chosen by measuring them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import Device

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.tune import Row

Progress = Callable[[int, int, str], Any]


async def tune_async(
    device: str | Device = "webgpu",
    work: Callable[[], Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """`tune` that waits without blocking, as a tab must.

    work and progress may be coroutine functions.
    """
    from rushlight.core.measure import tuned

    return await tuned(device, work, progress)


def tune(
    device: str | Device = "webgpu",
    work: Callable[[], Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure which kernels are fastest, decide so from now on, and keep it for later starts.

    What counts is all that the device has computed since it was opened. work: a function that is
    called first, and computes what is to be fast; without it, and if the device has computed
    nothing yet, it is what language models of 100 million to a billion parameters compute.
    progress(done, total, what).

    Each candidate's result is compared with that of the kernel taken before; what fails, or differs
    by more than the tolerance table says, is not chosen. What `jit` has captured is captured anew
    where a choice changed. Gives a row for each class of operands: what it is, the choice, the
    guess that it takes the place of, and seconds by name. Takes from seconds to minutes.

    RUSHLIGHT_TUNE=off in the environment leaves what was kept alone. ValueError for a device that
    has nothing to choose among; RuntimeError where an event loop runs, or in a tab.
    """
    running = tune_async(device, work, progress)
    try:
        running.send(None)
    except StopIteration as done:
        found: list[Row] = done.value
        return found
    running.close()
    raise RuntimeError("tune: an event loop is running; use `await rl.tune_async(...)`")
