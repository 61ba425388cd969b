"""Convolution in one dim, and pooling over windows of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.ops.conv import Size, conv2d, pair_of
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.movement import owned, pad

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


@public
@network
def max_pool2d(
    x: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0
) -> Tensor:
    """Largest element of each window of the last two dims; stride defaults to the window."""
    windows = _windows("max_pool2d", x, kernel_size, stride, padding, float("-inf"))
    flat = windows.reshape(*windows.shape[:-2], windows.shape[-2] * windows.shape[-1])
    return flat.gather(-1, flat.argmax(-1, True)).squeeze(-1)


@public
@network
def avg_pool2d(
    x: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0
) -> Tensor:
    """Mean of each window of the last two dims, padding counted as zeros (as torch's default)."""
    return _windows("avg_pool2d", x, kernel_size, stride, padding, 0.0).mean((-2, -1))


def _windows(
    name: str, x: Tensor, kernel_size: Size, stride: Size | None, padding: Size, fill: float
) -> Tensor:
    """(..., oh, ow, kh, kw): a view of the windows of the last two dims of padded `x`."""
    k = pair_of(name, "kernel_size", kernel_size, 1)
    s = k if stride is None else pair_of(name, "stride", stride, 1)
    p = pair_of(name, "padding", padding, 0)
    if x.ndim < 3:
        raise ValueError(f"{name}: x {x.shape} must be (channels, h, w) or (n, channels, h, w)")
    if any(2 * p[i] > k[i] for i in range(2)):
        raise ValueError(f"{name}: padding {p} is more than half of the window {k}")
    if any(x.shape[i - 2] + 2 * p[i] < k[i] for i in range(2)):
        raise ValueError(f"{name}: the window {k} is larger than padded x {x.shape}")
    if any(p):
        x = pad(x, (p[1], p[1], p[0], p[0]), value=fill)
    return x.unfold(-2, k[0], s[0]).unfold(-2, k[1], s[1])
