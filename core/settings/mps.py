"""Apple's MPS, which no device here uses by that name: Macs serve `webgpu`."""

from rushlight.core.backends import manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]


def is_available() -> bool:
    """False. `rl.devices()` lists the devices there are."""
    return False


def device_count() -> int:
    """0."""
    return 0


def empty_cache() -> None:
    """Nothing to do."""
