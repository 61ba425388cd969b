"""Resize and Upsample; points of a grid sampled; crops and pads around the centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional import declared as rl
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.tables import Table, resample
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.convolution import pad_with
from rushlight.core.onnx.registry import Call, as_ints, operator

Array = npt.NDArray[Any]
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class _Axis:
    """How a dim of n elements becomes one of `out`.

    scale: out / n, or what the node says. exact: whether it is out / n. roi: the range that
    tf_crop_and_resize takes.
    """

    n: int
    out: int
    scale: float
    exact: bool
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def is_same(self) -> bool:
        """Whether every element stays."""
        return self.n == self.out and self.scale == 1 and self.roi == (0.0, 1.0)


def _points(axis: _Axis, coordinates: str, narrow: bool) -> Array:
    """Where the new elements lie among the old ones. narrow: in float32, as for nearest ones."""
    cropped = coordinates == "tf_crop_and_resize"
    dtype: Any = np.float32 if cropped or narrow and not axis.exact else np.float64
    at: Array = np.arange(axis.out, dtype=dtype)
    width = axis.scale * axis.n

    def scaled(x: Array) -> Array:
        result: Array = x * axis.n / axis.out if axis.exact else x / dtype(axis.scale)
        return result

    half = dtype(0.5)
    if coordinates == "align_corners":
        # Of the sizes that there are, as PyTorch and onnxruntime have it, not of n * scale.
        step: float = dtype((axis.n - 1) / (axis.out - 1)) if axis.out > 1 else 0.0
        return at * step
    if coordinates == "asymmetric":
        return scaled(at)
    if coordinates == "tf_half_pixel_for_nn":
        return scaled(at + half)
    if cropped:
        first, last = (np.float32(v) for v in axis.roi)
        longest = np.float32(axis.n - 1)
        middle, span = half * (first + last) * longest, (last - first) * longest
        crop: Array = at + middle
        if axis.out > 1:
            crop = first * longest + at * span / np.float32(axis.out - 1)
        return crop
    if coordinates == "pytorch_half_pixel" and axis.out == 1:
        return at * 0
    points: Array = scaled(at + half) - half
    if coordinates == "half_pixel_symmetric":
        points = points + axis.n / 2 * (1 - axis.out / width)
    return points


def _nearest(points: Array, mode: str, n: int, shrinks: bool) -> Array:
    """The old element of each new one. mode "simple" is that of opsets before 11."""
    if mode == "simple":
        mode = "ceil" if shrinks else "floor"
    places = {
        "round_prefer_floor": lambda: np.ceil(points - 0.5),
        "round_prefer_ceil": lambda: np.floor(points + 0.5),
        "floor": lambda: np.floor(points),
        "ceil": lambda: np.ceil(points),
    }[mode]()
    result: Array = np.clip(places, 0, n - 1).astype(np.int64)
    return result


def _cubic(t: Array, a: float) -> Array:
    """The weight of an element at a distance (Keys, 1981)."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    result: Array = np.where(t <= 1, near, np.where(t < 2, far, 0.0))
    return result


def _taps(points: Array, axis: _Axis, a: float | None, antialias: bool, inside: bool) -> Table:
    """The elements around each point and their weights.

    a: the coefficient of cubic ones, None for linear ones. inside: those beyond the ends are left
    out and the rest made to sum to one; otherwise they are as the ends.
    """
    squeeze = min(axis.scale, 1.0) if antialias else 1.0
    reach = int(np.ceil((1 if a is None else 2) / squeeze))
    low = np.floor(points)
    places = low[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(places - points[:, None]) * squeeze
    weights = np.maximum(1 - distance, 0) if a is None else _cubic(distance, a)
    if inside:
        weights = np.where((places >= 0) & (places < axis.n), weights, 0.0)
    if inside or antialias:
        total = weights.sum(1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return np.clip(places, 0, axis.n - 1).astype(np.int64), weights


def _resized(call: Call, x: Any, axes: dict[int, _Axis]) -> Any:
    """`x` with dims resized as the node's attributes say."""
    mode = call.choice("mode", "nearest", "nearest", "linear", "bilinear", "cubic")
    if call.opset < 11:
        coordinates, rounding = "asymmetric", "simple"
    else:
        coordinates = call.choice("coordinate_transformation_mode", "half_pixel", *_COORDINATES)
        rounding = call.choice("nearest_mode", "round_prefer_floor", *_NEAREST)
    a: float | None = call.float("cubic_coeff_a", -0.75)
    a = a if mode == "cubic" else None
    antialias, inside = call.flag("antialias"), call.flag("exclude_outside")
    outside_value = call.float("extrapolation_value", 0.0)
    shape = [axes[d].out if d in axes else n for d, n in enumerate(x.shape)]
    if 0 in shape or 0 in x.shape:
        if 0 in x.shape and 0 not in shape:
            raise call.fail(f"{tuple(x.shape)} has no elements to make {shape} of")
        return rl.zeros(*shape, dtype=x.dtype, device=x.device)
    tables: list[Table | None] = [None] * x.ndim
    beyond: Any = False
    for d, axis in axes.items():
        if axis.is_same:
            continue
        points = _points(axis, coordinates, mode == "nearest")
        if coordinates == "tf_crop_and_resize":
            out = (points < 0) | (points > axis.n - 1)
            beyond = beyond | out.reshape([-1 if i == d else 1 for i in range(x.ndim)])
        if mode == "nearest":
            places = _nearest(points, rounding, axis.n, axis.scale < 1)
            tables[d] = places[:, None], np.ones((axis.out, 1))
        else:
            tables[d] = _taps(points, axis, a, antialias, inside)
    y = _with_tables(x, tables, mode == "nearest", antialias)
    if np.any(beyond):
        mask = of_data(np.asarray(beyond), device=x.device)
        y = rl.where(mask, outside_value, y).to(x.dtype)
    return y


def _with_tables(x: Any, tables: list[Table | None], nearest: bool, rounds: bool) -> Any:
    """`x` by its tables; rounds: integers are rounded, else cut off towards zero."""
    while tables and tables[0] is None:
        tables = tables[1:]
    if not tables:
        return x
    if nearest and x.dtype is not float32:
        for d, table in enumerate(tables, x.ndim - len(tables)):
            if table is not None:
                x = x.index_select(d, of_data(table[0][:, 0], device=x.device))
        return x
    if x.dtype.kind == "f":
        return resample(x, tables)
    y = resample(x.to(float32), tables)
    y = (y + 0.5).floor() if rounds else y.trunc()
    if x.dtype.itemsize == 1 and x.dtype.kind in "iu":
        low, high = (0, 255) if x.dtype.kind == "u" else (-128, 127)
        y = y.clamp(low, high)
    return y.to(x.dtype)


@operator("Upsample", host=(1,))
def upsample(call: Call, x: Any, scales: Any = None) -> Any:
    """`x` with each dim larger by its scale: Resize's older form."""
    factors = call.floats("scales") if scales is None else [float(s) for s in scales]
    return _resized(call, x, _by_scales(call, x, factors, list(range(x.ndim)), None))


def _by_scales(
    call: Call, x: Any, scales: list[float], dims: list[int], roi: list[float] | None
) -> dict[int, _Axis]:
    """The axes of `dims`; sizes are products in float32, rounded down."""
    if len(scales) != len(dims) or min(scales, default=1) <= 0:
        raise call.fail(f"scales={scales}; they must be {len(dims)} positive numbers")
    axes = {}
    for i, (d, scale) in enumerate(zip(dims, scales, strict=True)):
        n = int(x.shape[d])
        span = (roi[i], roi[len(dims) + i]) if roi else (0.0, 1.0)
        length = np.float32(n) * np.float32(scale)
        axes[d] = _Axis(n, int(np.floor(length)), float(np.float32(scale)), False, span)
    return axes


def _by_sizes(
    call: Call, x: Any, sizes: list[int], dims: list[int], roi: list[float] | None
) -> dict[int, _Axis]:
    """The axes of `dims`, of these sizes or the nearest of one ratio."""
    policy = call.choice(
        "keep_aspect_ratio_policy", "stretch", "stretch", "not_larger", "not_smaller"
    )
    if len(sizes) != len(dims):
        raise call.fail(f"sizes={sizes}; there must be {len(dims)}")
    ratios = [size / max(int(x.shape[d]), 1) for d, size in zip(dims, sizes, strict=True)]
    axes = {}
    for i, (d, size) in enumerate(zip(dims, sizes, strict=True)):
        n = int(x.shape[d])
        span = (roi[i], roi[len(dims) + i]) if roi else (0.0, 1.0)
        if policy == "stretch":
            axes[d] = _Axis(n, size, ratios[i], True, span)
            continue
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        axes[d] = _Axis(n, int(np.floor(ratio * n + 0.5)), ratio, False, span)
    return axes


@operator("Resize", host=(1, 2, 3))
def resize(call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """`x` resized by scales or to sizes, to the nearest elements or weighted ones."""
    if call.opset < 11:
        roi, scales = None, roi
    dims = [normalize_dim("axes", d, x.shape) for d in call.ints("axes", None) or range(x.ndim)]
    cropped = (
        call.opset >= 11 and call.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    )
    bounds = [float(v) for v in roi] if cropped and roi is not None else None
    if bounds is not None and len(bounds) != 2 * len(dims):
        raise call.fail(f"roi has {len(bounds)} numbers; there must be {2 * len(dims)}")
    if scales is not None and scales.size:
        call.ignore("keep_aspect_ratio_policy")
        axes = _by_scales(call, x, [float(s) for s in scales.reshape(-1)], dims, bounds)
    elif sizes is not None:
        axes = _by_sizes(call, x, as_ints(sizes) or [], dims, bounds)
    else:
        raise call.fail("scales or sizes must be there")
    return _resized(call, x, axes)


@operator("GridSample")
def grid_sample(call: Call, x: Any, grid: Any) -> Any:
    """`x` at the points of a grid in [-1, 1], between elements."""
    default = "bilinear" if call.opset < 20 else "linear"
    names = ("linear", "bilinear", "nearest", "cubic", "bicubic")
    mode = call.choice("mode", default, *names)
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    padding = call.choice("padding_mode", "zeros", "zeros", "border", "reflection")
    corners = call.flag("align_corners")
    y = F.grid_sample(x.to(grid.dtype), grid, mode, padding, corners)
    return y if y.dtype is x.dtype else y.to(x.dtype)


@operator("AffineGrid", host=(1,))
def affine_grid(call: Call, theta: Any, size: Any) -> Any:
    """The points of images of a size under affine maps."""
    return F.affine_grid(theta, as_ints(size) or [], call.flag("align_corners"))


@operator("CenterCropPad", host=(1,))
def center_crop_pad(call: Call, x: Any, shape: Any) -> Any:
    """`x` cut or filled with zeros around its centre."""
    wanted = as_ints(shape) or []
    dims = [normalize_dim("axes", d, x.shape) for d in call.ints("axes", None) or range(x.ndim)]
    if len(dims) != len(wanted):
        raise call.fail(f"the shape {wanted} must have {len(dims)} sizes")
    pads = [(0, 0)] * x.ndim
    for d, size in zip(dims, wanted, strict=True):
        n = int(x.shape[d])
        if size > n:
            pads[d] = ((size - n) // 2, size - n - (size - n) // 2)
        elif size < n:
            first = (n - size) // 2
            x = x.narrow(d, first, size)
    return pad_with(x, pads)
