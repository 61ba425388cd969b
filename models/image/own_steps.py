"""Processors whose steps are their own: of depths, of larger pictures, of key points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.models.image.resize import resize

if TYPE_CHECKING:
    from rushlight.models.image.processor import Processor

Array = npt.NDArray[Any]
_NEAR = 1e-5
_GREY = np.array([0.2989, 0.587, 0.114], np.float32)


def own_pixels(p: Processor, image: Array) -> Array:
    """Scaled pixels (height, width, channels) of an image by the steps of `p.kind`."""
    scale, (tall, wide), m = np.float32(p.scale), image.shape[:2], p.multiple
    if p.kind == "GLPN":
        sides = max(1, tall // m) * m, max(1, wide // m) * m
        return resize(image, sides, p.filter).astype(np.float32) * scale if m > 1 else image * scale
    if p.kind == "Siglip2":
        sides = _most_patches(tall, wide, m, p.longest or 256)
        return resize(image, sides, p.filter).astype(np.float32) * scale
    if p.kind == "Swin2SR":
        edges = ((0, (tall // m + 1) * m - tall), (0, (wide // m + 1) * m - wide), (0, 0))
        return np.pad(image.astype(np.float32) * scale, edges if m > 1 else 0, "symmetric")
    if p.kind == "ZoeDepth":
        x = image.astype(np.float32) * scale
        below, right = margins(p, tall, wide)
        if below or right:
            x = np.pad(x, ((below, below), (right, right), (0, 0)), "reflect")
        size = p.target(*x.shape[:2])
        return x if size is None else resize(x, size, "corners")
    if p.size is not None:  # SuperPoint's
        image = resize(image, p.size, p.filter)
    x = image.astype(np.float32) * scale
    plain = (image[..., 0] == image[..., 1]).all() and (image[..., 1] == image[..., 2]).all()
    return x if plain or not p.flip else np.repeat((x @ _GREY)[..., None], 3, 2)


def margins(p: Processor, tall: int, wide: int) -> tuple[int, int]:
    """What is added above and below, and at both sides, before an image is resized."""
    if p.kind != "ZoeDepth" or p.pad is None:
        return 0, 0
    return int(math.sqrt(tall / 2) * 3), int(math.sqrt(wide / 2) * 3)


def _most_patches(tall: int, wide: int, patch: int, most: int) -> tuple[int, int]:
    """The largest size of this shape whose sides are patches, of which there are at most `most`."""

    def sides(share: float) -> tuple[int, int]:
        rows, columns = (max(1, math.ceil(n * share / patch)) for n in (tall, wide))
        return rows * patch, columns * patch

    low, high = _NEAR / 10, 100.0
    while high - low >= _NEAR:
        middle = (low + high) / 2
        size = sides(middle)
        if size[0] // patch * (size[1] // patch) <= most:
            low = middle
        else:
            high = middle
    return sides(low)


def warped(
    image: Array, center: tuple[float, float], size: tuple[float, float], target: tuple[int, int]
) -> Array:
    """A box of an image by its center and size, x before y, at the size target (height, width).

    What lies outside the image is black.
    """
    axes = []
    for axis in (1, 0):
        step = size[1 - axis] / (target[axis] - 1)
        at = np.arange(target[axis]) * step + center[1 - axis] - size[1 - axis] / 2
        last = image.shape[axis] - 1
        inside = (at >= 0) & (at <= last)
        first = np.clip(np.floor(at), 0, max(last - 1, 0)).astype(np.int64)
        axes.append((first, np.minimum(first + 1, last), np.where(inside, at - first, 0), inside))
    x: Array = image.astype(np.float64)
    for axis, (first, second, share, inside) in zip((1, 0), axes, strict=True):
        shape = [1, 1, 1]
        shape[axis] = -1
        part = share.reshape(shape)
        x = x.take(first, axis) * (1 - part) + x.take(second, axis) * part
        x = x * inside.reshape(shape)
    return np.floor(x + 0.5).astype(np.uint8)
