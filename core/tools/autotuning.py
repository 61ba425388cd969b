"""autotune: choose the kernels of a webgpu device by measuring them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import Device

if TYPE_CHECKING:
    from rushlight.core.backends.autotuning import Row

Progress = Callable[[int, int, str], Any]


async def autotune_async(
    device: str | Device = "webgpu",
    work: Callable[[], Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """`autotune` without blocking, for use in a tab.

    work and progress may be coroutine functions.

    `device` as there; it raises what tune raises.
    """
    from rushlight.core.tools.measure import tuned

    return await tuned(device, work, progress)


def autotune(
    device: str | Device = "webgpu",
    work: Callable[[], Any] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure which kernels are fastest, use them from now on, and save the choice.

    The classes of operands are those that the device has computed since it was opened. work: a
    function that is called first and computes what shall be fast. Without it, on a device that has
    computed nothing, ops of language models of 100 million to a billion parameters are measured.
    progress(done, total, what).

    Each candidate's result is compared with that of the default kernel. A candidate that fails, or
    differs by more than the tolerance table allows, is not chosen. Captured functions are captured
    again if a choice changed. Returns a row for each class of operands: the class, the choice, the
    default guess, and seconds by name. This takes from seconds to minutes.

    RUSHLIGHT_AUTOTUNE=off in the environment ignores saved choices. ValueError for a device without
    candidates; RuntimeError inside an event loop or in a tab.
    """
    running = autotune_async(device, work, progress)
    try:
        running.send(None)
    except StopIteration as done:
        rows: list[Row] = done.value
        return rows
    running.close()
    raise RuntimeError("autotune: an event loop is running; use `await rl.autotune_async(...)`")
