"""Resizing as Pillow does it: a separable filter, wider where an image is made smaller."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # Pillow's numbers 0 to 5
# Bilinear between two pixels, however small the image becomes: OpenCV's, and darknet's, for which
# the first and last pixels stay where they are.
NARROW = ("opencv", "corners")
MOST_SIDE = 1 << 16
_ONE = 1 << 22


def _lanczos(x: Array) -> Array:
    weights: Array = np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)
    return weights


def _bicubic(x: Array, a: float = -0.5) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    weights: Array = np.where(x < 1, near, np.where(x < 2, far, 0))
    return weights


def _box(x: Array) -> Array:
    weights: Array = ((x > -0.5) & (x <= 0.5)).astype(np.float64)
    return weights


def _hamming(x: Array) -> Array:
    weights: Array = np.where(np.abs(x) < 1, np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x)), 0)
    return weights


def _bilinear(x: Array) -> Array:
    weights: Array = np.maximum(0, 1 - np.abs(x))
    return weights


_KERNELS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "lanczos": (_lanczos, 3),
    "bilinear": (_bilinear, 1),
    "bicubic": (_bicubic, 2),
    "box": (_box, 0.5),
    "hamming": (_hamming, 1),
}


@lru_cache(32)
def _weights(old: int, new: int, filter: str) -> tuple[Array, Array]:
    """For each of `new` places the first of its old places, and their weights (new, taps)."""
    if filter == "corners":
        places = np.arange(new) * ((old - 1) / max(new - 1, 1))
        first = np.minimum(places.astype(np.int64), max(old - 2, 0))
        return first, np.stack([1 - (places - first), places - first], 1)
    kernel, reach = _KERNELS["bilinear" if filter == "opencv" else filter]
    scale = old / new
    wide = 1.0 if filter == "opencv" else max(scale, 1.0)
    support = reach * wide
    center = (np.arange(new) + 0.5) * scale
    low = np.maximum(0, (center - support + 0.5).astype(np.int64))
    high = np.minimum(old, (center + support + 0.5).astype(np.int64))
    taps = int((high - low).max())
    places = low[:, None] + np.arange(taps)
    weights = kernel((places - center[:, None] + 0.5) / wide)
    weights[places >= high[:, None]] = 0
    weights /= weights.sum(1, keepdims=True)
    return low, weights


def resize(
    image: Array, size: tuple[int, int], filter: str = "bilinear", shorter: bool = False
) -> Array:
    """An image (height, width, channels) of uint8 or floats at another size (height, width).

    filter: one of FILTERS. Bytes are rounded after each axis, the width first, as in Pillow's
    Image.resize, to which they are equal. shorter: as in Pillow 13, which begins with the height
    where it shrinks and leaves less of the image than the width would. Bytes of "opencv" are equal
    to cv2.resize's within 1, and almost all of them equal. ValueError for another filter or size.
    """
    if filter not in FILTERS + NARROW:
        raise ValueError(
            f"resize: filter {filter!r} is not supported; supported: {', '.join(FILTERS + NARROW)}"
        )
    if image.ndim != 3 or not image.size or not all(1 <= n <= MOST_SIDE for n in size):
        raise ValueError(
            f"resize: {image.shape} to {size}; an image is (height, width, channels), and a side "
            f"has 1 to {MOST_SIDE} pixels"
        )
    if filter == "opencv" and image.dtype == np.uint8:
        return _opencv(image, size)
    height, width = image.shape[:2]
    down_first = shorter and size[0] < height and size[0] * width < height * size[1]
    for axis in (0, 1) if down_first else (1, 0):
        old, new = image.shape[axis], size[axis]
        if filter == "nearest":
            nearest = np.minimum(((np.arange(new) + 0.5) * old / new).astype(np.int64), old - 1)
            image = image.take(nearest, axis)
        elif old != new:
            image = _along(image, axis, *_weights(old, new, filter))
    return image


def _opencv(image: Array, size: tuple[int, int]) -> Array:
    """OpenCV's bilinear of bytes: its weights have 11 bits, and sums lose 4 of them on the way."""
    rows, columns = (_pair(old, new) for old, new in zip(image.shape, size, strict=False))
    (above, below), (upper, lower) = rows
    (left, right), (near, far) = columns
    wide = image[:, left] * near[:, None] + image[:, right] * far[:, None]
    upper, lower = upper[:, None, None], lower[:, None, None]
    total = (upper * (wide[above] >> 4) >> 16) + (lower * (wide[below] >> 4) >> 16) + 2 >> 2
    pixels: Array = total.clip(0, 255).astype(np.uint8)
    return pixels


def _pair(old: int, new: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """For each of `new` places the two old ones, and their weights of 11 bits."""
    places = ((np.arange(new) + 0.5) * (old / new) - 0.5).clip(0, old - 1).astype(np.float32)
    first = places.astype(np.int64)
    share = places - first
    near, far = (np.rint(weight * 2048).astype(np.int32) for weight in (1 - share, share))
    return (first, np.minimum(first + 1, old - 1)), (near, far)


def _along(image: Array, axis: int, low: Array, weights: Array) -> Array:
    old, taps = image.shape[axis], weights.shape[1]
    shape = [1] * image.ndim
    shape[axis] = len(low)
    # Taps in turn: each is one pass over the result.
    whole = image.dtype == np.uint8  # Pillow's weights of bytes have 22 bits
    scaled = np.trunc(weights * _ONE + np.copysign(0.5, weights)) if whole else weights
    scaled = scaled.astype(np.int32 if whole else np.float32)
    size = (*image.shape[:axis], len(low), *image.shape[axis + 1 :])
    total: Array = np.full(size, _ONE // 2 if whole else 0, scaled.dtype)
    for tap in range(taps):
        tap_values = image.take(np.minimum(low + tap, old - 1), axis)
        total += tap_values * scaled[:, tap].reshape(shape)
    return np.clip(total >> 22, 0, 255).astype(np.uint8) if whole else total


def smoothed(image: Array, size: tuple[int, int]) -> Array:
    """Floats (height, width, channels) at another size (height, width), as scikit-image resizes.

    Where both sides become smaller a Gaussian goes before, whose deviation is half of what a place
    covers beyond one; then each place is between its two nearest.
    """
    deviations = [(old / new - 1) / 2 for old, new in zip(image.shape, size, strict=False)]
    for axis, deviation in enumerate(deviations if min(deviations) > 0 else ()):
        reach = math.ceil(3 * deviation)
        bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
        around = [(reach, reach) if dim == axis else (0, 0) for dim in range(3)]
        places = np.arange(image.shape[axis])
        weights = np.tile(bell / bell.sum(), (len(places), 1))
        image = _along(np.pad(image, around, mode="reflect"), axis, places, weights)
    for axis, new in enumerate(size):
        places_in_old = np.clip((np.arange(new) + 0.5) * image.shape[axis] / new - 0.5, 0, None)
        places_in_old = np.minimum(places_in_old, image.shape[axis] - 1)
        share = places_in_old - np.floor(places_in_old)
        image = _along(image, axis, places_in_old.astype(np.int64), np.stack([1 - share, share], 1))
    return image


def stretched(values: Array) -> Array:
    """Numbers as bytes of the same shape: the least is 0, the largest 255."""
    low, high = float(values.min()), float(values.max())
    share = (values - low) / max(high - low, 1e-12)
    pixels: Array = np.rint(share * 255).astype(np.uint8)
    return pixels


def fitted(height: int, width: int, shortest: int, longest: int | None = None) -> tuple[int, int]:
    """The size whose shorter side is `shortest`, or less so that the longer is at most `longest`.

    The rounding is that of transformers' processors.
    """
    short, long = sorted((height, width))
    exact: float = shortest
    if longest is not None and long / short * shortest > longest:
        exact = longest * short / long
        shortest = round(exact)
    other = max(1, int((exact if longest is not None else shortest) * long / short))
    if longest is not None and short == shortest:
        other = long
    return (other, shortest) if width <= height else (shortest, other)
