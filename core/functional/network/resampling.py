"""Resampling dim by dim, and sampling at the points of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import network

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")


def _points(n: int, out: int, factor: float | None, corners: bool) -> np.ndarray:
    """Where the centres of `out` elements lie among those of n."""
    at = np.arange(out, dtype=np.float64)
    if corners:
        return at * ((n - 1) / (out - 1) if out > 1 else 0.0)
    scale = n / out if factor is None else 1 / factor
    return (at + 0.5) * scale - 0.5


def _cubic(t: np.ndarray, a: float = -0.75) -> list[np.ndarray]:
    """Weights of four neighbours (Keys, 1981)."""
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    return [far[0], near[0], near[1], far[1]]


def _taps(
    n: int, out: int, factor: float | None, corners: bool, mode: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(indices, weights) of the elements that each new one is made of."""
    at = _points(n, out, factor, corners)
    if mode == "bicubic":
        low = np.floor(at)
        return [(np.clip(low + i - 1, 0, n - 1).astype(np.int64), w)
                for i, w in enumerate(_cubic(at - low))]  # fmt: skip
    at = np.maximum(at, 0)
    low = np.minimum(np.floor(at), n - 1)
    high, share = np.minimum(low + 1, n - 1), at - low
    return [(low.astype(np.int64), 1 - share), (high.astype(np.int64), share)]


def resampled(
    x: Tensor, sizes: Sequence[int], factors: Sequence[float | None], mode: str, corners: bool
) -> Tensor:
    """(n, c, ...) with its last dims resampled to `sizes`; see `interpolate`."""
    rank = x.ndim - 2
    if mode not in _MODES or _RANKS.get(mode, rank) != rank:
        raise ValueError(
            f"interpolate: mode {mode!r} is not supported for {x.shape}; supported: "
            f"{', '.join(m for m in _MODES if _RANKS.get(m, rank) == rank)}"
        )
    if min(sizes) < 1:
        raise ValueError(f"interpolate: the size {tuple(sizes)} must be positive")
    if mode == "area":
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[rank - 1](x, tuple(sizes))
    for i, (out, factor) in enumerate(zip(sizes, factors, strict=True)):
        d, n = i + 2, x.shape[i + 2]
        if mode.startswith("nearest"):
            scale = np.float32(n / out if factor is None else 1 / factor)
            half = 0.5 if mode == "nearest-exact" else 0.0
            index = np.floor((np.arange(out, dtype=np.float32) + np.float32(half)) * scale)
            at = np.clip(index, 0, n - 1).astype(np.int64)
            x = x.index_select(d, of_data(at, device=x.device))
            continue
        if out == n and factor in (None, 1):
            continue
        parts = []
        for index, weight in _taps(n, out, factor, corners, mode):
            w = of_data(weight, dtype="float32" if x.dtype.itemsize < 8 else x.dtype,
                       device=x.device).reshape(*[-1] + [1] * (x.ndim - 1 - d))  # fmt: skip
            wide = x.to(w.dtype) if x.dtype.itemsize < 4 else x
            parts.append(wide.index_select(d, of_data(index, device=x.device)) * w)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        x = total.to(x.dtype)
    return x


@network
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """Points (n, h, w, 2) of images `size` (n, c, h, w) under maps theta (n, 2, 3), in [-1, 1]."""
    n, _, h, w = size
    axes = []
    for count in (h, w):
        ends = np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
        axes.append(ends if align_corners or count == 1 else ends * (count - 1) / count)
    y, x = np.meshgrid(*axes, indexing="ij")
    base = of_data(np.stack([x, y, np.ones_like(x)], -1), dtype=theta.dtype, device=theta.device)
    return (base.reshape(1, h * w, 3) @ theta.transpose(1, 2)).reshape(n, h, w, 2)


def _unnormalized(g: Tensor, n: int, corners: bool) -> Tensor:
    return (g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2


def _bounded(at: Tensor, n: int, mode: str, corners: bool) -> Tensor:
    """Points outside moved inside: to the border, or reflected at it."""
    if mode == "border":
        return at.clamp(0, n - 1)
    if mode == "reflection":
        low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
        if span == 0:
            return at * 0
        rest = (at - low).abs()
        turns = (rest / span).detach().floor()
        within = rest - turns * span
        at = where(turns % 2 == 0, within + low, span - within + low)
        return at.clamp(0, n - 1)
    return at


@network
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images (n, c, h, w) at points (n, oh, ow, 2), x before y in [-1, 1]: (n, c, oh, ow).

    mode: "bilinear" or "nearest". padding_mode: "zeros", "border" or "reflection".
    """
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample: mode {mode!r} with padding_mode {padding_mode!r} is not supported; "
            "supported: bilinear, nearest; zeros, border, reflection"
        )
    if input.ndim != 4 or grid.ndim != 4:
        raise ValueError(f"grid_sample: input {input.shape} and grid {grid.shape} must have 4 dims")
    n, c, h, w = input.shape
    corners = bool(align_corners)
    x, y = (
        _bounded(_unnormalized(grid[..., i], size, corners), size, padding_mode, corners)
        for i, size in ((0, w), (1, h))
    )
    oh, ow = grid.shape[1:3]
    flat = input.reshape(n, c, h * w)

    def picked(px: Tensor, py: Tensor) -> Tensor:
        inside = (px >= 0) & (px <= w - 1) & (py >= 0) & (py <= h - 1)
        place = py.clamp(0, h - 1).long() * w + px.clamp(0, w - 1).long()
        found = flat.gather(2, place.reshape(n, 1, oh * ow).expand(n, c, oh * ow))
        return where(inside.unsqueeze(1), found.reshape(n, c, oh, ow), 0.0).to(input.dtype)

    if mode == "nearest":
        return picked(x.detach().round(), y.detach().round())
    x0, y0 = x.detach().floor(), y.detach().floor()
    dx, dy = (x - x0).unsqueeze(1), (y - y0).unsqueeze(1)
    top = picked(x0, y0) * (1 - dx) + picked(x0 + 1, y0) * dx
    low = picked(x0, y0 + 1) * (1 - dx) + picked(x0 + 1, y0 + 1) * dx
    return top * (1 - dy) + low * dy
