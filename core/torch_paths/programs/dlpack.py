"""torch.utils.dlpack: tensors of other libraries that share memory."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor.convert import from_dlpack
from rushlight.core.tensor.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor as a capsule, which another library's from_dlpack takes once."""
    return tensor.__dlpack__()
