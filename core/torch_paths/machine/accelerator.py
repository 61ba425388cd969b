"""torch.accelerator: the device beside `cpu`, `webgpu` where there is an adapter.

Numbers of memory are those of the device; a device has one stream, which is the order of its calls.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.backends import Device, devices, instantiated
from rushlight.core.backends import device as named
from rushlight.core.settings.streams import Stream

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def _others() -> list[str]:
    return [name for name in map(str, devices()) if name.partition(":")[0] not in _HOSTS]


_HOSTS = frozenset(("cpu", "meta"))


def device_count() -> int:
    """How many devices there are beside `cpu`."""
    return len(_others())


def is_available() -> bool:
    """Whether there is a device beside `cpu`."""
    return bool(_others())


def current_accelerator(check_available: bool = False) -> Device | None:
    """The first device beside `cpu`, or None."""
    others = _others()
    return named(others[0]) if others else None


def current_device_index() -> int:
    """0."""
    return 0


def set_device_index(device: Any) -> None:
    """Accepted for 0; ValueError for others: a tensor is on the device that its call names."""
    index = device if isinstance(device, int) else named(device).index or 0
    if index:
        raise ValueError(f"accelerator: device {index} is not supported; supported: 0")


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """Context manager of `set_device_index`."""

    def __init__(self, device: int | None) -> None:
        set_device_index(device or 0)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


def current_stream(device: Any = None) -> Stream:
    """The only stream."""
    return Stream(device)


def set_stream(stream: Stream) -> None:
    """Accepted: there is one stream."""


def synchronize(device: Any = None) -> None:
    """Wait for the pending work of every device."""
    for each in instantiated():
        each.synchronize()


def empty_cache() -> None:
    """Nothing to do: freed memory is used again."""


def memory_stats(device: Any = None) -> dict[str, int]:
    """Empty: memory is not counted by streams."""
    return {}


def memory_allocated(device: Any = None) -> int:
    """0: not counted."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def get_memory_info(device: Any = None) -> tuple[int, int]:
    """RuntimeError: WebGPU does not tell its memory."""
    raise RuntimeError(
        "get_memory_info is not supported: the devices here do not tell their "
        "memory; supported: rl.device(name).info"
    )


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to do."""


reset_accumulated_memory_stats = reset_peak_memory_stats
