"""Boxes that remain of many that overlap, and images out of the bytes of files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.onnx.registry import Call, operator

Array = npt.NDArray[Any]
_MOST_PIXELS = 1 << 26
_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


def _number(value: Array | None, default: float) -> float:
    return default if value is None or not value.size else float(value.reshape(-1)[0])


def _corners(boxes: Array, centred: bool) -> Array:
    """(n, 4) of y1, x1, y2, x2, the lower numbers first."""
    if centred:
        middle, half = boxes[:, [1, 0]], boxes[:, [3, 2]] / 2
        return np.concatenate([middle - half, middle + half], 1)
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _kept(boxes: Array, order: Array, most: int, threshold: float) -> list[int]:
    """The numbers of the boxes, best first, that overlap none of those before by more."""
    kept: list[int] = []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.size and len(kept) < most:
        best, order = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(boxes[order, :2], boxes[best, :2])
        high = np.minimum(boxes[order, 2:], boxes[best, 2:])
        common = np.maximum(high - low, 0).prod(1)
        union = areas[order] + areas[best] - common
        overlap = np.where(union > 0, common / np.where(union > 0, union, 1), 0)
        order = order[overlap <= threshold]
    return kept


@operator("NonMaxSuppression", host=(0, 1, 2, 3, 4), dynamic=True)
def non_max_suppression(
    call: Call,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
) -> Array:
    """(kept, 3) of batch, class and box: the best boxes that do not overlap one before by more."""
    centred = call.flag("center_point_box")
    count = int(most.reshape(-1)[0]) if most is not None and most.size else 0
    threshold, lowest = _number(overlap, 0.0), _number(least, -np.inf)
    rows: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0] if count > 0 else 0):
        corners = _corners(boxes[batch], centred)
        for number, values in enumerate(scores[batch]):
            candidates = (
                np.flatnonzero(values > lowest) if least is not None else np.arange(len(values))
            )
            order = candidates[np.argsort(-values[candidates], kind="stable")]
            rows += [(batch, number, box) for box in _kept(corners, order, count, threshold)]
    return np.array(rows, np.int64).reshape(-1, 3)


@operator("ImageDecoder", host=(0,), dynamic=True)
def image_decoder(call: Call, stream: Array) -> Array:
    """The pixels (height, width, channels) of the bytes of a file; none if they are no image.

    Pillow reads them: pip install 'rushlight[image]'.
    """
    wanted = call.choice("pixel_format", "RGB", "RGB", "BGR", "Grayscale")
    try:
        from PIL import Image
    except ImportError:
        raise call.fail(
            "Pillow is needed to read images", hint="pip install 'rushlight[image]'"
        ) from None
    mode = "L" if wanted == "Grayscale" else "RGB"
    try:
        with Image.open(io.BytesIO(stream.tobytes()), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise call.fail(f"the image has {image.size} pixels; at most {_MOST_PIXELS}")
            pixels = np.asarray(image.convert(mode))
    except (OSError, SyntaxError, Image.DecompressionBombError):
        return np.zeros((0, 0, 1 if mode == "L" else 3), np.uint8)
    if mode == "L":
        return pixels[:, :, None]
    return np.array(pixels[:, :, ::-1] if wanted == "BGR" else pixels)
