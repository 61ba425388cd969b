"""Convolution in one dim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.ops.conv import conv2d
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.movement import owned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@network
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, length) with (out, c / groups, k): (n, out, olength)."""
    if x.ndim != 3 or weight.ndim != 3:
        raise ValueError(f"conv1d: x {x.shape} and weight {weight.shape} must have 3 dims")
    out = conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, (1, stride), (0, padding),
                 (1, dilation), groups)  # fmt: skip
    return owned(out.squeeze(2))
