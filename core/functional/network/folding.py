"""Windows as columns and back, channels as pixels, padding modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.pooling import each
from rushlight.core.ops.autocast import listed
from rushlight.core.ops.common import Scalar
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import flip
from rushlight.core.ops.movement import pad as _pad

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Size = int | Sequence[int]


def _sliding(
    name: str, x: Tensor, kernel: Size, dilation: Size, padding: Size, stride: Size
) -> Tensor:
    """(n, c, oh, ow, kh, kw) of (n, c, h, w)."""
    k, d, p, s = (each(name, v, 2) for v in (kernel, dilation, padding, stride))
    x = _pad(x, (p[1], p[1], p[0], p[0])) if any(p) else x
    for i in range(2):
        if (k[i] - 1) * d[i] >= x.shape[2 + i]:
            raise ShapeError(f"{name}: the window {k} is larger than padded x {x.shape}")
        x = x.unfold(2 + i, k[i], s[i], dilation=d[i])
    return x


@network
def unfold(
    input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:
    """Windows of (n, c, h, w) as columns: (n, c * kh * kw, count)."""
    x = input if input.ndim == 4 else input.unsqueeze(0)
    windows = _sliding("unfold", x, kernel_size, dilation, padding, stride)
    n, c, oh, ow, kh, kw = windows.shape
    columns = windows.permute(0, 1, 4, 5, 2, 3).reshape(n, c * kh * kw, oh * ow)
    return columns if input.ndim == 4 else columns.squeeze(0)


@network
def fold(
    input: Tensor, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0,
    stride: Size = 1,
) -> Tensor:  # fmt: skip
    """Columns (n, c * kh * kw, count) added up to images (n, c, h, w), where `unfold` took them."""
    h, w = each("fold", output_size, 2)
    k = each("fold", kernel_size, 2)
    p = each("fold", padding, 2)
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.ndim != 3 or min(k) < 1:
        raise ShapeError(f"fold: input is {input.shape}, kernel_size {kernel_size}; the input must "
                         "have 2 or 3 dims, the kernel a size")  # fmt: skip
    n, rows, count = x.shape
    c = rows // (k[0] * k[1])
    wide, tall = w + 2 * p[1], h + 2 * p[0]
    places = arange(tall * wide, device=x.device).reshape(1, 1, tall, wide)
    at = unfold(places, kernel_size, dilation, 0, stride)
    if at.shape[-1] != count or rows % (k[0] * k[1]):
        raise ShapeError(f"fold: {input.shape} does not fit output_size {(h, w)}, which has "
                         f"{at.shape[-1]} windows of {k[0] * k[1]}")  # fmt: skip
    flat = x.reshape(n, c, k[0] * k[1] * count)
    out = zeros(n, c, tall * wide, dtype=x.dtype, device=x.device)
    out = out.index_add(2, at.reshape(-1), flat).reshape(n, c, tall, wide)
    out = out[:, :, p[0] : p[0] + h, p[1] : p[1] + w]
    return out if input.ndim == 3 else out.squeeze(0)


@public
@network
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., c * r * r, h, w) as (..., c, h * r, w * r) (Shi et al., 2016)."""
    r = upscale_factor
    *rest, c, h, w = input.shape
    if r < 1 or c % (r * r):
        raise ShapeError(f"pixel_shuffle: {c} channels are no multiple of {r} * {r}")
    x = input.reshape(*rest, c // (r * r), r, r, h, w)
    d = len(rest)
    x = x.permute(*range(d + 1), d + 3, d + 1, d + 4, d + 2)
    return x.reshape(*rest, c // (r * r), h * r, w * r)


@public
@network
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., c, h * r, w * r) as (..., c * r * r, h, w)."""
    r = downscale_factor
    *rest, c, h, w = input.shape
    if r < 1 or h % r or w % r:
        raise ShapeError(f"pixel_unshuffle: {h} and {w} are no multiples of {r}")
    x = input.reshape(*rest, c, h // r, r, w // r, r)
    d = len(rest)
    x = x.permute(*range(d + 1), d + 2, d + 4, d + 1, d + 3)
    return x.reshape(*rest, c * r * r, h // r, w // r)


@public
@network
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels (dim 1) dealt out from `groups` groups in turn (Zhang et al., 2018)."""
    n, c, *rest = input.shape
    if groups < 1 or c % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups do not divide {c} channels")
    return input.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(*input.shape)


def _mirrored(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    n = x.shape[d]
    least = n if mode == "circular" else n - 1
    if before > least or after > least:
        raise ShapeError(f"pad: {before} and {after} are more than {mode} padding of {n} can be")
    front, back = x.narrow(d, 0, 0), x.narrow(d, 0, 0)
    if mode == "circular":
        front, back = x.narrow(d, n - before, before), x.narrow(d, 0, after)
    else:
        front = flip(x.narrow(d, 1, before), d) if before else front
        back = flip(x.narrow(d, n - 1 - after, after), d) if after else back
    return cat([front, x, back], d)


@network
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: Scalar | None = None
) -> Tensor:
    """Pad the last dims: (before, after) of the last dim, then of the one before, and so on.

    mode: "constant" (with `value`, 0 by default), "reflect", "replicate" or "circular". Negative
    numbers cut elements off. ValueError for another mode and for sizes that do not fit.
    """
    if mode == "constant":
        return _pad(input, pad, value=value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(
            f"pad: mode {mode!r} is not supported; supported: constant, reflect, replicate, "
            "circular"
        )
    if value:
        raise ValueError(f"pad: mode {mode!r} takes no value")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(f"pad: {tuple(pad)} is not a pair for each of at most {input.ndim} dims")
    return (_beyond if mode == "circular" else edge_pad)(input, pad, mode)


@listed
def edge_pad(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """`pad` of the modes "reflect" and "replicate"; within autocast on cpu float32, as in torch."""
    return _beyond(input, pad, mode)


def _beyond(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    x = input
    for i in range(0, len(pad), 2):
        d = x.ndim - 1 - i // 2
        before, after = pad[i], pad[i + 1]
        if mode == "replicate":
            if x.shape[d] + before + after < 0 or not x.shape[d]:
                raise ShapeError(f"pad: {tuple(pad)} cuts off more than shape {input.shape} has")
            nearest = np.arange(-before, x.shape[d] + after).clip(0, x.shape[d] - 1)
            x = x.index_select(d, of_data(nearest, device=x.device))
            continue
        low, high = max(0, -before), max(0, -after)
        if low + high > x.shape[d]:
            raise ShapeError(f"pad: {tuple(pad)} cuts off more than shape {input.shape} has")
        x = x.narrow(d, low, x.shape[d] - low - high) if low or high else x
        if max(before, 0) or max(after, 0):
            x = _mirrored(x, d, max(before, 0), max(after, 0), mode)
    return x


def _scales(name: str, x: Tensor, size: Any, factor: Any) -> tuple[list[int], list[float | None]]:
    rank = x.ndim - 2
    if (size is None) == (factor is None):
        raise ValueError(f"{name}: give size or scale_factor")
    if size is not None:
        return list(each(name, size, rank)), [None] * rank
    given = [factor] * rank if isinstance(factor, int | float) else list(factor)
    return [int(n * f) for n, f in zip(x.shape[2:], given, strict=True)], list(given)


@network
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(n, c, ...) resampled to `size`, or by `scale_factor`: one to three dims.

    mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".
    align_corners: whether the corners' centres keep their places. antialias: "bilinear" and
    "bicubic" average over what a smaller image covers. ValueError for other modes.
    """
    from rushlight.core.functional.network.resampling import resampled

    if antialias and (mode not in ("bilinear", "bicubic") or input.ndim != 4):
        raise ValueError(f"interpolate: antialias=True is not supported for mode {mode!r} of "
                         f"{input.shape}; supported: bilinear, bicubic")  # fmt: skip
    sizes, factors = _scales("interpolate", input, size, scale_factor)
    factors = [None] * len(sizes) if recompute_scale_factor else factors
    return resampled(input, sizes, factors, mode, bool(align_corners), antialias)


@network
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """`interpolate` under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@network
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` to the nearest element."""
    return interpolate(input, size, scale_factor)


@network
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` between four elements, corners aligned."""
    return interpolate(input, size, scale_factor, "bilinear", True)
