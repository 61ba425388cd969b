"""Operators of com.microsoft on images and positions: sampling, crops, pools of other layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import int64
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.common import as_tensor
from rushlight.core.onnx.operators.microsoft.entering import contrib, like
from rushlight.core.onnx.proto import Attribute
from rushlight.core.onnx.registry import Call, as_ints


@contrib("GridSample")
def grid_sample(call: Call, x: Any, grid: Any) -> Any:
    """The input at the points of a grid."""
    mode = call.choice("mode", "bilinear", "bilinear", "nearest", "bicubic")
    edge = call.choice("padding_mode", "zeros", "zeros", "border", "reflection")
    return F.grid_sample(x, grid, mode, edge, align_corners=call.flag("align_corners"))


@contrib("NhwcMaxPool")
def nhwc_max_pool(call: Call, x: Any) -> Any:
    """The largest element of each window, with channels last."""
    result = like(call, "MaxPool", rl.movedim(x, -1, 1))
    result = result[0] if isinstance(result, list) else result
    call.result_kinds = [call.kinds[0]]
    return rl.movedim(result, 1, -1)


@contrib("ConvTransposeWithDynamicPads", host=(2,), stored=(1,))
def conv_transpose(call: Call, x: Any, weight: Any, pads: Any = None, bias: Any = None) -> Any:
    """A transposed convolution whose pads are an input."""
    widths = as_ints(pads)
    if widths is None:
        return like(call, "ConvTranspose", x, weight, bias)
    more = {**call.attributes, "pads": Attribute("pads", "ints", widths)}
    return like(replace(call, attributes=more), "ConvTranspose", x, weight, bias)


@contrib("CropAndResize", host=(3,))
def crop_and_resize(call: Call, x: Any, boxes: Any, images: Any, size: Any) -> Any:
    """Boxes (y1, x1, y2, x2) of images, each scaled to one size, corner on corner."""
    mode = call.choice("mode", "bilinear", "bilinear", "nearest")
    outside = call.float("extrapolation_value", 0.0)
    shape, (height, width) = as_ints(size) or [], x.shape[2:]
    rows, row_in = _points(boxes[:, 0], boxes[:, 2], shape[0], height)
    columns, column_in = _points(boxes[:, 1], boxes[:, 3], shape[1], width)
    # (boxes, channels, height, width), then rows and columns of it.
    result = rl.index_select(x, 0, images.to(int64))
    for points, dim in ((rows, 2), (columns, 3)):
        result = _sampled(result, points, dim, mode == "nearest")
    inside = rl.logical_and(row_in.unsqueeze(2), column_in.unsqueeze(1)).unsqueeze(1)
    return rl.where(inside, result, outside)


def _points(first: Any, last: Any, count: int, size: int) -> tuple[Any, Any]:
    """Places (boxes, count) from one end of each box to the other, and whether they lie inside."""
    if count > 1:
        steps = rl.arange(count, device=first.device).to(first.dtype) * ((size - 1) / (count - 1))
        points = first.unsqueeze(1) * (size - 1) + (last - first).unsqueeze(1) * steps
    else:
        points = ((first + last) * (0.5 * (size - 1))).unsqueeze(1)
    return points, rl.logical_and(points >= 0, points <= size - 1)


def _sampled(x: Any, points: Any, dim: int, nearest: bool) -> Any:
    """x (boxes, channels, height, width) at places (boxes, count) of one dim."""
    most = x.shape[dim] - 1
    shape = (points.shape[0], 1, *((-1, 1) if dim == 2 else (1, -1)))
    points = rl.clamp(points, 0, most)

    def at(places: Any) -> Any:
        wide = places.to(int64).reshape(shape)
        sizes = [*x.shape]
        sizes[dim] = points.shape[1]
        return rl.gather(x, dim, wide.expand(*sizes))

    if nearest:
        return at(rl.floor(points + 0.5).clamp(0, most))
    low = rl.floor(points)
    share = (points - low).reshape(shape)
    first, second = at(low), at(rl.clamp(low + 1, 0, most))
    return first + (second - first) * share


@contrib("UnfoldTensor")
def unfold_tensor(call: Call, x: Any) -> Any:
    """Slices of a dim, one every `step`, in a new last dim."""
    return x.unfold(call.int("dim", -1), call.int("size"), call.int("step", 1))


def bucket_of(distance: Any, count: int, furthest: int, both: bool) -> Any:
    """The bucket of each distance (key less query): exact near zero, then by logarithm.

    T5 (Raffel et al., 2020). both: positive distances have half of the buckets.
    """
    first = np.zeros_like(distance)
    if both:
        count //= 2
        first = np.where(distance > 0, count, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = count // 2
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / np.log(furthest / exact)
    far = exact + (ratio.astype(np.float32) * (count - exact)).astype(np.int64)
    return first + np.where(distance < exact, distance, np.minimum(far, count - 1))


@contrib("RelativePositionBias", host=(1, 2))
def relative_position_bias(call: Call, table: Any, queries: Any, keys: Any) -> Any:
    """What T5 adds to the scores of each head, (1, heads, queries, keys)."""
    length, across = int(queries.reshape(-1)[0]), int(keys.reshape(-1)[0])
    distance = np.arange(across)[None, :] - np.arange(length)[:, None]
    both, furthest = call.flag("is_bidirectional"), call.int("max_distance")
    buckets = bucket_of(distance, table.shape[0], furthest, both)
    index = as_tensor(buckets.astype(np.int64), table.device)
    return rl.permute(F.embedding(index, table), (2, 0, 1)).unsqueeze(0)
