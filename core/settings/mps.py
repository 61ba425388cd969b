"""MPS, XPU and MTIA: no device here is used by these names; a Mac's GPU serves `webgpu`."""

from __future__ import annotations

from typing import Any

from rushlight.core.backends import instantiated, manual_seed
from rushlight.core.settings.standins import refuse_all
from rushlight.core.settings.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event", "Stream", "StreamContext", "current_allocated_memory", "current_stream",
    "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state", "init",
    "is_available", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "memory_allocated", "memory_reserved", "recommended_max_memory", "reset_peak_memory_stats",
    "seed", "set_device", "set_per_process_memory_fraction", "set_rng_state", "set_stream",
    "stream", "synchronize",
]  # fmt: skip

NONE = 'there is no such device here; a GPU of any maker is "webgpu", see rl.devices()'
manual_seed_all = manual_seed


def is_available() -> bool:
    """False. `rl.devices()` lists the devices there are."""
    return False


def device_count() -> int:
    """0."""
    return 0


def synchronize(device: object = None) -> None:
    """Wait for the pending work of every device."""
    for each in instantiated():
        each.synchronize()


def empty_cache() -> None:
    """Nothing to do."""


def _zero(device: object = None) -> int:
    """0."""
    return 0


def _nothing(*args: object, **options: object) -> None:
    """Nothing to do."""


def _refuse(*args: object, **options: object) -> Any:
    """RuntimeError: there is no such device."""
    raise RuntimeError(NONE)


def is_initialized() -> bool:
    """False."""
    return False


current_allocated_memory = driver_allocated_memory = recommended_max_memory = _zero
memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _zero
set_per_process_memory_fraction = reset_peak_memory_stats = set_device = init = seed = _nothing
current_device = get_device_name = get_device_properties = get_device_capability = _refuse
get_rng_state = set_rng_state = mem_get_info = _refuse
globals().update(refuse_all("mps", "compile_shader load_metallib", NONE))
