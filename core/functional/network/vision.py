"""Channels as pixels, resampling dim by dim, and sampling at the points of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    each,
)
from rushlight.core.functional.network.tables import Table, resample, sparse
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import network, public

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


_MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")


def _points(n: int, out: int, factor: float | None, corners: bool) -> np.ndarray:
    """Where the centres of `out` elements lie among those of n."""
    points = np.arange(out, dtype=np.float64)
    if corners:
        return points * ((n - 1) / (out - 1) if out > 1 else 0.0)
    scale = n / out if factor is None else 1 / factor
    return (points + 0.5) * scale - 0.5


def _cubic(t: Any, a: float = -0.75) -> list[Any]:
    """Weights of four neighbours (Keys, 1981)."""
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + 1, 2 - t)]
    return [far[0], near[0], near[1], far[1]]


def _taps(n: int, out: int, factor: float | None, corners: bool, mode: str) -> Table:
    """The elements that each new one is made of."""
    points = _points(n, out, factor, corners)
    if mode == "bicubic":
        low = np.floor(points)
        places, weights = [low + i - 1 for i in range(4)], _cubic(points - low)
    else:
        points = np.maximum(points, 0)
        low = np.minimum(np.floor(points), n - 1)
        places, weights = [low, low + 1], [1 - (points - low), points - low]
    return np.clip(np.stack(places, 1), 0, n - 1).astype(np.int64), np.stack(weights, 1)


def _nearest(n: int, out: int, factor: float | None, half: float) -> np.ndarray:
    scale = np.float32(n / out if factor is None else 1 / factor)
    index = np.floor((np.arange(out, dtype=np.float32) + np.float32(half)) * scale)
    result: np.ndarray = np.clip(index, 0, n - 1).astype(np.int64)
    return result


def _smooth(n: int, out: int, factor: float | None, corners: bool, mode: str) -> np.ndarray:
    """Weights (out, n) of a filter as wide as what an element covers (as in Pillow)."""
    if corners:
        scale = (n - 1) / (out - 1) if out > 1 else 0.0
    else:
        scale = n / out if factor is None else 1 / factor
    reach, wide = (2.0 if mode == "bicubic" else 1.0), max(scale, 1.0)
    centre = scale * (np.arange(out)[:, None] + 0.5)
    low = np.maximum((centre - reach * wide + 0.5).astype(np.int64), 0)
    high = np.minimum((centre + reach * wide + 0.5).astype(np.int64), n)
    j = np.arange(n)[None]
    t = np.abs((j - centre + 0.5) / wide)
    if mode == "bicubic":
        a = -0.5
        near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        weights = np.where(t < 1, near, np.where(t < 2, far, 0.0))
    else:
        weights = np.maximum(1 - t, 0.0)
    weights = np.where((j >= low) & (j < high), weights, 0.0)
    total = weights.sum(1, keepdims=True)
    result: np.ndarray = weights / np.where(total != 0, total, 1.0)
    return result


def resampled(
    x: Tensor,
    sizes: Sequence[int],
    factors: Sequence[float | None],
    mode: str,
    corners: bool,
    antialias: bool = False,
) -> Tensor:
    """(n, c, ...) with its last dims resampled to `sizes`; see `interpolate`."""
    rank = x.ndim - 2
    if mode not in _MODES or _RANKS.get(mode, rank) != rank:
        raise ValueError(
            f"interpolate: mode {mode!r} is not supported for {x.shape}; supported: "
            f"{', '.join(m for m in _MODES if _RANKS.get(m, rank) == rank)}"
        )
    if min(sizes) < 1:
        raise ShapeError(f"interpolate: the size {tuple(sizes)} must be positive")
    if mode == "area":
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[rank - 1](x, tuple(sizes))
    tables: list[Table | None] = []
    for n, out, factor in zip(x.shape[2:], sizes, factors, strict=True):
        if mode.startswith("nearest"):
            places = _nearest(n, out, factor, 0.5 if mode == "nearest-exact" else 0.0)
            tables.append((places[:, None], np.ones((out, 1))))
        elif out == n and factor in (None, 1):
            tables.append(None)
        elif antialias:
            tables.append(sparse(_smooth(n, out, factor, corners, mode)))
        else:
            tables.append(_taps(n, out, factor, corners, mode))
    if mode.startswith("nearest") and x.dtype is not float32:
        for d, table in enumerate(tables, 2):
            assert table is not None
            x = x.index_select(d, of_data(table[0][:, 0], device=x.device))
        return x
    return resample(x, tables)


@network
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Points in [-1, 1] of images of `size` under affine maps.

    (n, c, h, w) with theta (n, 2, 3) gives (n, h, w, 2); (n, c, d, h, w) with (n, 3, 4) gives
    (n, d, h, w, 3).

    `align_corners`: -1 and 1 are the centres of the outermost pixels, else their edges. Raises
    ShapeError for other shapes (Jaderberg et al., 2015).
    """
    n, _, *sizes = size
    rank = len(sizes)
    if rank not in (2, 3) or min(size) < 1 or theta.shape != (n, rank, rank + 1):
        raise ShapeError(
            f"affine_grid: theta is {theta.shape} and size {tuple(size)}; supported: (n, 2, 3) "
            "with 4 sizes, (n, 3, 4) with 5"
        )
    axes = []
    for count in sizes:
        ends = np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
        axes.append(ends if align_corners or count == 1 else ends * (count - 1) / count)
    points = [*reversed(np.meshgrid(*axes, indexing="ij"))]
    base = of_data(
        np.stack([*points, np.ones_like(points[0])], -1), dtype=theta.dtype, device=theta.device
    )
    flat = base.reshape(1, -1, rank + 1) @ theta.transpose(1, 2)
    return flat.reshape(n, *sizes, rank)


def _unnormalized(g: Tensor, n: int, corners: bool) -> Tensor:
    return (g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2


def _bounded(points: Tensor, n: int, mode: str, corners: bool) -> Tensor:
    """Points outside moved inside: to the border, or reflected at it."""
    if mode == "border":
        return points.clamp(0, n - 1)
    if mode == "reflection":
        low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
        if span == 0:
            return points * 0
        rest = (points - low).abs()
        turns = (rest / span).detach().floor()
        within = rest - turns * span
        points = where(turns % 2 == 0, within + low, span - within + low)
        return points.clamp(0, n - 1)
    return points


@network
@casts(cpu="float32", accelerator="widest")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (n, c, [d,] h, w) at points (n, [od,] oh, ow, 2 or 3) in [-1, 1], x before y.

    mode: "bilinear", "nearest", or "bicubic" for 4 dims. padding_mode: "zeros", "border" or
    "reflection". ShapeError for shapes that do not fit.

    `input` and `grid` are these; `align_corners` as in affine_grid. ValueError for another mode.
    """
    rank = input.ndim - 2
    if (
        mode not in ("bilinear", "nearest", "bicubic")
        or padding_mode not in ("zeros", "border", "reflection")
        or (mode == "bicubic" and rank != 2)
    ):
        raise ValueError(
            f"grid_sample: mode {mode!r} with padding_mode {padding_mode!r} is not supported for "
            f"{input.ndim} dims; supported: bilinear, nearest, bicubic (4 dims); zeros, border, "
            "reflection"
        )
    if (
        rank not in (2, 3)
        or grid.ndim != input.ndim
        or grid.shape[-1] != rank
        or (grid.shape[0] != input.shape[0])
    ):
        raise ShapeError(f"grid_sample: input {input.shape} and grid {grid.shape} do not fit")
    n, c, *sizes = input.shape
    corners, outs = bool(align_corners), grid.shape[1:-1]
    count = int(np.prod(outs))
    flat = input.reshape(n, c, -1)
    raw = [_unnormalized(grid[..., rank - 1 - i], size, corners) for i, size in enumerate(sizes)]

    def picked(points: Sequence[Tensor]) -> Tensor:
        inside, place = None, None
        for p, size in zip(points, sizes, strict=True):
            within, pixel = (p >= 0) & (p <= size - 1), p.clamp(0, size - 1).long()
            inside = within if inside is None else inside & within
            place = pixel if place is None else place * size + pixel
        assert inside is not None and place is not None
        values = flat.gather(2, place.reshape(n, 1, count).expand(n, c, count))
        return where(inside.unsqueeze(1), values.reshape(n, c, *outs), 0.0).to(input.dtype)

    if mode == "bicubic":
        (y0, ty), (x0, tx) = ((p.detach().floor(), p - p.detach().floor()) for p in raw)
        total: Tensor | None = None
        for i, wy in enumerate(_cubic(ty)):
            for j, wx in enumerate(_cubic(tx)):
                places = [
                    _bounded(p + k - 1, size, padding_mode, corners)
                    for p, k, size in ((y0, i, sizes[0]), (x0, j, sizes[1]))
                ]
                corner_values = picked(places) * (wy * wx).unsqueeze(1)
                total = corner_values if total is None else total + corner_values
        assert total is not None
        return total
    points = [_bounded(p, size, padding_mode, corners) for p, size in zip(raw, sizes, strict=True)]
    if mode == "nearest":
        return picked([p.detach().round() for p in points])
    low = [p.detach().floor() for p in points]
    share = [(p - q).unsqueeze(1) for p, q in zip(points, low, strict=True)]
    blended: Tensor | None = None
    for corner in itertools.product((0, 1), repeat=rank):
        corner_values = picked([q + k for q, k in zip(low, corner, strict=True)])
        for s, k in zip(share, corner, strict=True):
            corner_values = corner_values * (s if k else 1 - s)
        blended = corner_values if blended is None else blended + corner_values
    assert blended is not None
    return blended


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


def _scales(name: str, x: Tensor, size: Any, factor: Any) -> tuple[list[int], list[float | None]]:
    rank = x.ndim - 2
    if (size is None) == (factor is None):
        raise ValueError(f"{name}: give size or scale_factor")
    if size is not None:
        return list(each(name, size, rank)), [None] * rank
    factors = [factor] * rank if isinstance(factor, int | float) else list(factor)
    return [int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)], list(factors)


@network
@casts(accelerator="float32")
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

    `input` is the images; `recompute_scale_factor`: factors are those of the rounded sizes.
    """
    if antialias and (mode not in ("bilinear", "bicubic") or input.ndim != 4):
        raise ValueError(
            f"interpolate: antialias=True is not supported for mode {mode!r} of "
            f"{input.shape}; supported: bilinear, bicubic"
        )
    sizes, factors = _scales("interpolate", input, size, scale_factor)
    factors = [None] * len(sizes) if recompute_scale_factor else factors
    return resampled(input, sizes, factors, mode, bool(align_corners), antialias)


@network
@casts(accelerator="float32")
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its older name.

    `input`, `size`, `scale_factor`, `mode`, `align_corners` and what it raises are as there.
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@network
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` to the nearest element.

    `input`, `size`, `scale_factor` and what it raises are as there.
    """
    return interpolate(input, size, scale_factor)


@network
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` between four elements, corners aligned.

    `input`, `size`, `scale_factor` and what it raises are as there.
    """
    return interpolate(input, size, scale_factor, "bilinear", True)
