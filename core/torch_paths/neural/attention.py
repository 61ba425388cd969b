"""torch.nn.attention: the choice of a kernel for attention, which changes no number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """torch's kernels of scaled dot product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | list[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Accepted: attention has the numbers that each of the backends gives.

    TypeError for what is not an SDPBackend.
    """
    for each in backends if isinstance(backends, list | tuple) else [backends]:
        if not isinstance(each, SDPBackend):
            raise TypeError(f"sdpa_kernel: {each!r} is not an SDPBackend")
    yield


def list_flash_attention_impls() -> list[str]:
    """Empty."""
    return []


def current_flash_attention_impl() -> Any:
    """None."""
    return None
