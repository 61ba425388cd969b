"""CUDA, which no device here uses: programs that ask for it go on with another."""

from types import SimpleNamespace
from typing import Any

from rushlight.core.backends import instantiated, manual_seed
from rushlight.core.settings import amp as _amp

__all__ = [
    "amp", "device_count", "empty_cache", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated",
    "reset_peak_memory_stats", "synchronize",
]  # fmt: skip

manual_seed_all = manual_seed


def is_available() -> bool:
    """False. `rl.devices()` lists the devices there are."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def synchronize(device: object = None) -> None:
    """Wait for the pending work of every device."""
    for each in instantiated():
        each.synchronize()


def empty_cache() -> None:
    """Nothing to do."""


def memory_allocated(device: object = None) -> int:
    """0."""
    return 0


def max_memory_allocated(device: object = None) -> int:
    """0."""
    return 0


def reset_peak_memory_stats(device: object = None) -> None:
    """Nothing to do."""


def _autocast(enabled: bool = True, dtype: Any = "float16", cache_enabled: bool = True) -> Any:
    """`rl.autocast("cuda")`, torch's older name."""
    return _amp.autocast("cuda", dtype, enabled, cache_enabled)


def _scaler(*args: Any, **options: Any) -> Any:
    """`rl.amp.GradScaler("cuda")`, torch's older name."""
    return _amp.GradScaler("cuda", *args, **options)


amp = SimpleNamespace(autocast=_autocast, GradScaler=_scaler)
