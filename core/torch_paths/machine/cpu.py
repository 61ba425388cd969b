"""torch.cpu: the device `cpu` under the names that torch has for every kind of device."""

from __future__ import annotations

from typing import Any

from rushlight.core.backends import HOST
from rushlight.core.settings.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    stream,
)

__all__ = ["Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
           "get_capabilities", "is_available", "is_initialized", "set_device", "stream",
           "synchronize"]  # fmt: skip


def is_available() -> bool:
    """True."""
    return True


is_initialized = is_available


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Accepted: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for."""


def get_capabilities() -> dict[str, Any]:
    """Which kernels run."""
    return dict(HOST.info)
