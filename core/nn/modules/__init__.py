"""Layers under the path that torch has for them, and hooks of all modules (`modules.module`)."""

from typing import Any

from rushlight.core.nn.modules import module

__all__ = ["module"]


def __getattr__(name: str) -> Any:
    from rushlight.core import nn  # nn imports this module

    return getattr(nn, name)
