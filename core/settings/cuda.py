"""CUDA, which no device here uses: programs that ask for it go on with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.backends import instantiated, manual_seed
from rushlight.core.basis.errors import DeviceMemoryError, absent
from rushlight.core.settings.standins import refuse_all, refused
from rushlight.core.settings.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "can_device_access_peer",
    "current_device", "current_stream", "default_stream", "device", "device_count", "device_of",
    "empty_cache", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "ipc_collect",
    "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
    "is_tf32_supported", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed",
    "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

NONE = 'there is no CUDA here; a GPU of any maker is the device "webgpu", see rl.devices()'
default_generators: tuple[Any, ...] = ()
has_half = has_magma = False
manual_seed_all = manual_seed


def _zero(device: object = None) -> int:
    """0."""
    return 0


def _no(*args: object, **options: object) -> bool:
    """False."""
    return False


def _nothing(*args: object, **options: object) -> None:
    """Nothing to do."""


def _refuse(*args: object, **options: object) -> Any:
    """RuntimeError: there is no CUDA here."""
    raise RuntimeError(NONE)


def is_available() -> bool:
    """False. `rl.devices()` lists the devices there are."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


is_initialized = is_tf32_supported = is_current_stream_capturing = _no
can_device_access_peer = _no
empty_cache = ipc_collect = set_device = init = seed = seed_all = _nothing
reset_peak_memory_stats = reset_max_memory_allocated = reset_max_memory_cached = _nothing
reset_accumulated_memory_stats = reset_peak_host_memory_stats = _nothing
reset_accumulated_host_memory_stats = set_per_process_memory_fraction = _nothing
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _zero
memory_cached = max_memory_cached = _zero
current_device = get_device_name = get_device_properties = get_device_capability = _refuse
get_rng_state = set_rng_state = mem_get_info = utilization = temperature = power_draw = _refuse
clock_rate = memory_usage = current_blas_handle = cudart = device_memory_used = _refuse


def synchronize(device: object = None) -> None:
    """Wait for the pending work of every device."""
    for each in instantiated():
        each.synchronize()


def get_rng_state_all() -> list[Any]:
    """Empty: there is no such device."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Accepted for no states."""
    if list(new_states):
        _refuse()


def get_arch_list() -> list[str]:
    """Empty."""
    return []


def memory_stats(device: object = None) -> dict[str, Any]:
    """Empty."""
    return {}


memory_stats_as_nested_dict = host_memory_stats = memory_stats


def memory_snapshot(*args: object, **options: object) -> list[Any]:
    """Empty."""
    return []


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """A sentence that there is no CUDA."""
    return NONE


class device:
    """Context manager that names a CUDA device: accepted, since programs name none where
    `is_available` is False; what is made inside lies where its own call says."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


device_of = device


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Accepted: nothing to do."""
    yield


OutOfMemoryError = DeviceMemoryError
CudaError = DeferredCudaCallError = AcceleratorError = RuntimeError
globals().update(
    refuse_all(
        "cuda",
        "CUDAGraph CUDAPluggableAllocator GreenContext MemPool graph use_mem_pool "
        "make_graphed_callables graph_pool_handle caching_allocator_alloc caching_allocator_delete",
        NONE,
    )
)


def __getattr__(name: str) -> Any:
    """A tensor or storage type of CUDA: a class that cannot be made."""
    if name.endswith(("Tensor", "Storage")):
        return refused(f"cuda.{name}", NONE)
    raise absent("rushlight.cuda", name, __all__)
