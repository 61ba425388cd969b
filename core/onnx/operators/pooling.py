"""Pools over windows and over all of an image, unpooling, and pools of regions of interest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import int64
from rushlight.core.functional import declared as rl
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.pooling import largest
from rushlight.core.functional.network.tables import resample
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import INT64
from rushlight.core.onnx.interpreter import NeedsValue, Value
from rushlight.core.onnx.operators.convolution import Window, padded, window_of
from rushlight.core.onnx.registry import Call, as_ints, operator
from rushlight.core.ops.windows import WINDOW_MAX


def _lengths(call: Call, sizes: tuple[int, ...], window: Window) -> list[int]:
    """How many windows there are in each dim."""
    ceil = call.flag("ceil_mode")
    pads = padded(window, sizes)
    outs = []
    for n, k, s, d, (a, b) in zip(
        sizes, window.kernel, window.stride, window.dilation, pads, strict=True
    ):
        span = n + a + b - d * (k - 1) - 1
        out = (-(-span // s) if ceil else span // s) + 1
        if ceil and (out - 1) * s >= n + a:  # a window must not begin in the padding after
            out -= 1
        if out < 0 or span < 0 and not ceil:
            raise call.fail(f"the window {window.kernel} does not fit {sizes} with pads {pads}")
        outs.append(out)
    return outs


def _window(call: Call, x: Any) -> Window:
    if x.ndim < 3:
        raise call.fail(f"x is {tuple(x.shape)}; it must be (n, channels, ...)")
    return window_of(call, x.ndim - 2, call.ints("kernel_shape"))


def _places(x: Any, window: Window, outs: list[int]) -> list[Any]:
    """Per dim the places (out, k) of each window, from -before on."""
    result = []
    for i, (out, (a, _)) in enumerate(zip(outs, padded(window, tuple(x.shape[2:])), strict=True)):
        steps = np.arange(window.kernel[i]) * window.dilation[i]
        result.append(np.arange(out)[:, None] * window.stride[i] - a + steps)
    return result


@operator("MaxPool")
def max_pool(call: Call, x: Any) -> Any:
    """The largest element of each window, and its place among all elements of the input."""
    window = _window(call, x)
    columns = call.flag("storage_order")
    outs = _lengths(call, tuple(x.shape[2:]), window)
    rank, sizes = x.ndim - 2, [int(n) for n in x.shape[2:]]
    if rank > 3:
        raise call.fail(f"x is {tuple(x.shape)}; supported: 1 to 3 dims after (n, channels)")
    pads = padded(window, tuple(sizes))
    if 0 in outs or 0 in x.shape:
        call.result_kinds = [call.kinds[0], INT64]
        shape = (*x.shape[:2], *outs)
        return [rl.zeros(*shape, dtype=d, device=x.device) for d in (x.dtype, int64)]
    places = _places(x, window, outs)
    empty = any(
        not ((at >= 0) & (at < n)).any(1).all() for at, n in zip(places, sizes, strict=True)
    )
    rows: list[tuple[int, ...]] = [
        (k, s, a, d, out, n)
        for k, s, (a, _), d, out, n in zip(
            window.kernel, window.stride, pads, window.dilation, outs, sizes, strict=True
        )
    ]
    indices = len(call.wanted) > 1 and call.wanted[1]
    if empty:
        return _max_with_empty(call, x, places)
    if not indices:
        triple = [(1, 1, 0, 1, 1, 1)] * (3 - rank) + rows
        k, s, p, d, out, n = zip(*triple, strict=True)
        y = WINDOW_MAX(x.reshape(-1, *n), kernel=k, stride=s, padding=p, dilation=d, count=out)
        return y.reshape(*x.shape[:2], *outs)
    values, flat = largest(x, rows)
    call.result_kinds = [call.kinds[0], INT64]
    return [values, _global_places(x, flat, columns)]


def _global_places(x: Any, flat: Any, columns: bool) -> Any:
    """Places within each image made places among all elements."""
    sizes = [int(n) for n in x.shape[2:]]
    if columns:  # the first dim varies fastest
        rest, steps, place = flat, 1, None
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        for n, stride in zip(sizes, strides, strict=True):
            at = rest // stride
            rest = rest - at * stride
            place = at * steps if place is None else place + at * steps
            steps *= n
        flat = place
    count = x.shape[0] * x.shape[1]
    images = rl.arange(count, device=x.device).reshape(*x.shape[:2], *[1] * len(sizes))
    return flat + images * math.prod(sizes)


def _max_with_empty(call: Call, x: Any, places: list[Any]) -> Any:
    """Maxima where some windows lie in the padding alone: those are the lowest number."""
    if len(call.wanted) > 1 and call.wanted[1]:
        raise call.fail("windows that lie in the padding alone have no index")
    low = -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype.name).min)
    for i, at in enumerate(places):
        n = x.shape[2 + i]
        moved = F.pad(x.movedim(2 + i, -1), (0, 1), "constant", low)
        index = of_data(np.where((at >= 0) & (at < n), at, n).reshape(-1), device=x.device)
        moved = moved.index_select(-1, index).reshape(*moved.shape[:-1], *at.shape)
        x = moved.amax(-1).movedim(-1, 2 + i)
    return x


def _window_sums(x: Any, places: list[Any], weights: list[Any]) -> Any:
    """Sums of windows, dim by dim; weights: what each window of a dim is multiplied by."""
    tables = [
        (np.where((at >= 0) & (at < n), at, -1), np.ones(at.shape) * weight[:, None])
        for at, n, weight in zip(places, x.shape[2:], weights, strict=True)
    ]
    return resample(x, tables)


@operator("AveragePool")
def average_pool(call: Call, x: Any) -> Any:
    """The mean of each window; padding counts if `count_include_pad`."""
    window = _window(call, x)
    outs = _lengths(call, tuple(x.shape[2:]), window)
    with_pads = call.flag("count_include_pad")
    places, weights = _places(x, window, outs), []
    for at, n, (a, b) in zip(places, x.shape[2:], padded(window, tuple(x.shape[2:])), strict=True):
        low, high = (-a, n + b) if with_pads else (0, n)
        count = ((at >= low) & (at < high)).sum(1)
        weights.append(1 / np.maximum(count, 1))
    return _window_sums(x, places, weights)


@operator("LpPool")
def lp_pool(call: Call, x: Any) -> Any:
    """The p-norm of each window."""
    window, p = _window(call, x), call.int("p", 2)
    outs = _lengths(call, tuple(x.shape[2:]), window)
    places = _places(x, window, outs)
    powers = x * x if p == 2 else x.abs() ** p
    total = _window_sums(powers, places, [np.ones(len(at)) for at in places])
    return total.sqrt() if p == 2 else total ** (1.0 / p)


def _all_dims(x: Any) -> list[int]:
    return list(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(call: Call, x: Any) -> Any:
    """The mean of each channel; its dims stay as 1."""
    return x.mean(_all_dims(x), True) if x.ndim > 2 else x


@operator("GlobalMaxPool")
def global_max_pool(call: Call, x: Any) -> Any:
    """The largest element of each channel; its dims stay as 1."""
    return x.amax(_all_dims(x), True) if x.ndim > 2 else x


@operator("GlobalLpPool")
def global_lp_pool(call: Call, x: Any) -> Any:
    """The p-norm of each channel; its dims stay as 1."""
    p = call.int("p", 2)
    powers = x.abs() ** p
    return (powers.sum(_all_dims(x), True) if x.ndim > 2 else powers) ** (1.0 / p)


@operator("MaxUnpool", host=(2,))
def max_unpool(call: Call, x: Any, indices: Any, output_shape: Any = None) -> Any:
    """Elements put where MaxPool took them, zeros elsewhere; more zeros fill `output_shape`."""
    rank = x.ndim - 2
    window = window_of(call, rank, call.ints("kernel_shape"))
    sizes = [
        (n - 1) * s + k - a - b
        for n, s, k, (a, b) in zip(
            x.shape[2:], window.stride, window.kernel, window.pads, strict=True
        )
    ]
    shape = [*x.shape[:2], *sizes]
    flat = rl.zeros(math.prod(shape), dtype=x.dtype, device=x.device)
    y = flat.scatter(0, indices.reshape(-1), x.reshape(-1)).reshape(*shape)
    wanted = as_ints(output_shape)
    if wanted is None or wanted == shape:
        return y
    if len(wanted) != len(shape) or any(a < b for a, b in zip(wanted, shape, strict=True)):
        raise call.fail(f"output_shape is {wanted}; it must be at least {shape}")
    return F.pad(y, [n for a, b in zip(wanted[::-1], shape[::-1], strict=True) for n in (0, a - b)])


@operator("MaxRoiPool")
def max_roi_pool(call: Call, x: Any, rois: Any) -> Any:
    """The largest elements of a grid of parts of each region (Girshick, 2015).

    rois: (regions, 5) of batch index, x1, y1, x2, y2. A part without elements gives 0.
    """
    pooled, scale = call.ints("pooled_shape"), call.float("spatial_scale", 1.0)
    images = x.index_select(0, rois[:, 0].long())
    corners = (rois[:, 1:] * scale + 0.5).floor()  # halves go up
    for dim, out in ((3, pooled[1]), (2, pooled[0])):
        axis = 0 if dim == 3 else 1
        first, last = corners[:, axis], corners[:, axis + 2]
        step = (last - first + 1).clamp(min=1) / out
        n = x.shape[dim]
        at = rl.arange(n, device=x.device).reshape([-1 if d == dim else 1 for d in range(4)])
        parts = []
        for j in range(out):
            low = ((step * j).floor() + first).clamp(0, n).reshape(-1, 1, 1, 1)
            high = ((step * (j + 1)).ceil() + first).clamp(0, n).reshape(-1, 1, 1, 1)
            within = (at >= low) & (at < high)
            parts.append(rl.where(within, images, -math.inf).amax(dim))
        images = rl.stack(parts, dim)
    return rl.where(images == -math.inf, 0.0, images)


@operator("RoiAlign")
def roi_align(call: Call, x: Any, rois: Any, batch: Any) -> Any:
    """Means or maxima of points between pixels in a grid of parts of each region (He et al., 2017).

    rois: (regions, 4) of x1, y1, x2, y2; batch: the image of each.
    """
    mode = call.choice("mode", "avg", "avg", "max")
    outs = call.int("output_height", 1), call.int("output_width", 1)
    samples = call.int("sampling_ratio", 0)
    scale = call.float("spatial_scale", 1.0)
    default = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    half = call.choice("coordinate_transformation_mode", default, "half_pixel", "output_half_pixel")
    corners = rois * scale - (0.5 if half == "half_pixel" else 0.0)
    n, c, *sizes = x.shape
    regions = rois.shape[0]
    starts = corners[:, 1], corners[:, 0]
    spans = corners[:, 3] - corners[:, 1], corners[:, 2] - corners[:, 0]
    if half != "half_pixel":
        spans = spans[0].clamp(min=1.0), spans[1].clamp(min=1.0)
    if samples > 0:
        counts = [np.full(regions, samples)] * 2
    elif x.device.type == "meta":
        raise NeedsValue(Value(rois), f"{call.title}: how many points regions have must be known")
    else:
        steps = [s.detach().numpy() / out for s, out in zip(spans, outs, strict=True)]
        counts = [np.maximum(np.ceil(s), 0).astype(np.int64) for s in steps]
    axes = [
        _points(start, span, out, count, size, x)
        for start, span, out, count, size in zip(starts, spans, outs, counts, sizes, strict=True)
    ]
    (rows, row_weights), (columns, column_weights) = axes
    # Places and weights are (regions, out * samples * 2) for each dim; 2 for the neighbours.
    pixels = x.permute(0, 2, 3, 1).reshape(-1, c)
    first = batch.long().reshape(-1, 1, 1) * (sizes[0] * sizes[1])
    index = first + rows.unsqueeze(2) * sizes[1] + columns.unsqueeze(1)
    weight = row_weights.unsqueeze(2) * column_weights.unsqueeze(1)
    values = pixels.index_select(0, index.reshape(-1)) * weight.reshape(-1, 1)
    high, wide = outs
    tall, broad = (int(count.max(initial=0)) for count in counts)
    values = values.reshape(regions, high, tall, 2, wide, broad, 2, c)
    if mode == "max":
        y = values.amax((3, 6))
        if samples <= 0:
            real = [of_data(np.arange(m) < k[:, None], device=x.device)
                    for m, k in zip((tall, broad), counts, strict=True)]  # fmt: skip
            inside = real[0].reshape(regions, 1, tall, 1, 1, 1) & real[1].reshape(
                regions, 1, 1, 1, broad, 1
            )
            y = rl.where(inside, y, -math.inf)
        return y.amax((2, 4)).permute(0, 3, 1, 2)
    total = values.sum((2, 3, 5, 6))
    number = np.maximum(counts[0] * counts[1], 1).astype(np.float64)
    y = total / of_data(number, dtype=x.dtype, device=x.device).reshape(-1, 1, 1, 1)
    return y.permute(0, 3, 1, 2)


def _points(start: Any, span: Any, out: int, count: Any, size: int, x: Any) -> tuple[Any, Any]:
    """Places and weights (regions, out * samples * 2) of the pixels around the points of a dim."""
    most = int(count.max(initial=0))
    number = of_data(np.maximum(count, 1), dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
    sample = rl.arange(most, device=x.device).to(x.dtype)
    part = rl.arange(out, device=x.device).to(x.dtype).reshape(1, -1, 1)
    step = (span / out).reshape(-1, 1, 1)
    at = start.reshape(-1, 1, 1) + (part + (sample + 0.5) / number) * step
    seen = (at >= -1) & (at <= size) & (sample < number)
    at = at.clamp(0, size - 1)
    low = at.detach().floor()
    high = (low + 1).clamp(max=size - 1)
    places = rl.stack([low, high], -1).long()
    weights = rl.stack([1 - (at - low), at - low], -1) * seen.unsqueeze(-1).to(x.dtype)
    flat = (start.shape[0], out * most * 2)
    return places.reshape(*flat), weights.reshape(*flat)
