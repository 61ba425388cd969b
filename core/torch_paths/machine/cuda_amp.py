"""torch.cuda.amp: the older names of `rl.autocast("cuda")` and `rl.amp.GradScaler("cuda")`.

There is no CUDA, so both change nothing, as in torch without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.settings import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`rl.autocast("cuda", dtype, enabled)`, in torch's older order."""

    def __init__(
        self, enabled: bool = True, dtype: Any = "float16", cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`rl.amp.GradScaler("cuda")`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("cuda", *args, **options)


def custom_fwd(fwd: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`rl.amp.custom_fwd(device_type="cuda")`."""
    return amp.custom_fwd(fwd, device_type="cuda", **options)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """`rl.amp.custom_bwd(device_type="cuda")`."""
    return amp.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """True: there is no CUDA."""
    return True
