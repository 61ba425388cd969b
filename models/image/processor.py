"""Processor: the steps from an image to the normalized pixels that a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import Device
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.files import Pixels
from rushlight.models.image.own_steps import own_pixels
from rushlight.models.image.resize import fitted, resize, smoothed

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Processor:
    """The steps from pixels (height, width, 3) uint8 to normalized ones (3, height, width).

    size: (height, width), or `shortest` and `longest` sides; None: as it is. multiple: sides are
    rounded to multiples of it, with `shortest` downwards, with `upward` always up. crop: (height,
    width) of the middle. pad: (height, width) with zeros below and at the right. letterbox: the
    ratio is kept, and sides are filled up with `grey` on both sides, to `size` (darknet), or else
    to multiples of the number (Ultralytics). scale and offset turn bytes into floats. flip:
    channels are BGR. crop_share: below 384 the image is resized to shortest / crop_share and its
    middle taken; from 384 on it is resized to a square (ConvNeXt).

    `filter` of resizing is one of Pillow's names, "bilinear" or "bicubic" mostly; `keep_ratio`
    keeps the shape of the picture, `kind` names steps of transformers (own_steps.py), `twice`: the
    deviation is divided out once
    more; `squared`: filled up to a square with black first. `mean` and
    `std` of each channel normalize. Making one checks and raises nothing.
    """

    size: tuple[int, int] | None = None
    shortest: int | None = None
    longest: int | None = None
    keep_ratio: bool = False
    multiple: int = 1
    filter: str = "bilinear"
    crop: tuple[int, int] | None = None
    crop_share: float | None = None
    pad: tuple[int, int] | None = None
    scale: float = 1 / 255
    offset: float = 0.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    flip: bool = False
    floats: bool = False  # resized after it is scaled
    twice: bool = False  # the deviation is divided out once more
    letterbox: int = 0
    grey: float = 114 / 255
    upward: bool = False
    squared: bool = False  # filled up to a square with black, then resized as scikit-image does
    kind: str = ""  # of transformers' processors, where the steps are its own (own_steps.py)
    rounded: bool = False  # the middle's offset is rounded, not cut, as in torchvision

    def __call__(self, images: Sequence[Pixels], device: Device | str = "cpu") -> Tensor:
        """Normalized pixels (n, 3, height, width) float32 of images (height, width, 3) uint8.

        Images that come out in several sizes are filled up with zeros to the largest.
        """
        processed = [self.one(image) for image in images]
        sides = [max(m.shape[axis] for m in processed) for axis in (1, 2)]
        batch = np.zeros((len(processed), 3, *sides), np.float32)
        for row, picture in zip(batch, processed, strict=True):
            row[:, : picture.shape[1], : picture.shape[2]] = picture
        return tensor(batch, device=device)

    def one(self, image: Pixels) -> Floats:
        """Normalized pixels (3, height, width) of one image."""
        if self.kind:
            return self._channels_first(self._normalized(own_pixels(self, image)))
        x: npt.NDArray[Any] = image
        if self.floats or self.squared:
            x = x.astype(np.float32) * np.float32(self.scale)
        target = self.target(*image.shape[:2])
        if self.squared and self.size is not None:
            below, right = (max(x.shape[:2]) - n for n in x.shape[:2])
            x = smoothed(np.pad(x, ((0, below), (0, right), (0, 0))), self.size)
        elif self.crop_share is not None and self.shortest is not None:
            x = self._shared(x, self.shortest, self.crop_share)
        elif target is not None and target != image.shape[:2]:
            x = resize(x, target, self.filter)
        if self.crop is not None:
            x = cropped(x, self.crop, self.rounded)
        values = x.astype(np.float32)
        if not self.floats and not self.squared:
            values = values * np.float32(self.scale)
        values -= np.float32(self.offset)
        values = self._normalized(values)
        if self.flip:
            values = values[:, :, ::-1]
        return self._padded(self._channels_first(values))

    def _channels_first(self, values: npt.NDArray[Any]) -> Floats:
        return np.ascontiguousarray(values.transpose(2, 0, 1), np.float32)

    def _normalized(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.mean is not None and self.std is not None:
            mean, std = (np.asarray(v, np.float32) for v in (self.mean, self.std))
            values = (values - mean) / std
            if self.twice:
                values = values / std
        return values

    def _boxed(self, height: int, width: int) -> tuple[int, int, int, int]:
        """The size that a resized image is filled up to, and where it lies in it."""
        if self.size is not None:
            tall, wide = self.size
        else:
            tall, wide = (-(-n // self.letterbox) * self.letterbox for n in (height, width))
        # Of an odd rest the larger half is below and at the right.
        return tall, wide, (tall - height) // 2, (wide - width) // 2

    def place(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Where an image of this size lies in its pixels: left, top, width and height as shares."""
        if self.squared:
            return 0.0, 0.0, width / max(height, width), height / max(height, width)
        if not self.letterbox:
            return 0.0, 0.0, 1.0, 1.0
        inner = self.target(height, width) or (height, width)
        tall, wide, top, left = map(float, self._boxed(*inner))
        if self.size is not None:  # darknet's boxes begin at half a pixel
            top, left = (tall - inner[0]) / 2, (wide - inner[1]) / 2
        return left / wide, top / tall, inner[1] / wide, inner[0] / tall

    def target(self, height: int, width: int) -> tuple[int, int] | None:
        """The size that an image is resized to; None where it is not resized."""
        if self.upward:
            sides = self.size or (height, width)
            if self.shortest is not None:
                sides = fitted(height, width, self.shortest, self.longest)
            if self.size is None and self.shortest is None and self.multiple == 1:
                return None
            return (
                -(-sides[0] // self.multiple) * self.multiple,
                -(-sides[1] // self.multiple) * self.multiple,
            )
        if self.size is not None and self.letterbox:
            tall, wide = self.size  # whole numbers are divided as darknet does
            if wide * height < tall * width:
                return max(1, height * wide // width), wide
            return tall, max(1, width * tall // height)
        if self.size is not None:
            return self._kept(height, width) if self.keep_ratio or self.multiple > 1 else self.size
        if self.shortest is not None:
            tall, wide = fitted(height, width, self.shortest, self.longest)
            return (
                max(1, tall // self.multiple) * self.multiple,
                max(1, wide // self.multiple) * self.multiple,
            )
        if self.longest is not None:  # by the longer side alone
            share = self.longest / max(height, width)
            return int(height * share + 0.5), int(width * share + 0.5)
        return None

    def _kept(self, height: int, width: int) -> tuple[int, int]:
        """DPT's size: sides are multiples; the ratio is kept by the side that changes less."""
        assert self.size is not None
        shares = [self.size[0] / height, self.size[1] / width]
        if self.keep_ratio:
            nearer = min(shares, key=lambda share: abs(1 - share))
            shares = [nearer, nearer]
        sides = [
            max(1, round(share * side / self.multiple)) * self.multiple
            for share, side in zip(shares, (height, width), strict=True)
        ]
        return sides[0], sides[1]

    def _shared(self, x: npt.NDArray[Any], side: int, share: float) -> npt.NDArray[Any]:
        if side >= 384:
            return resize(x, (side, side), self.filter)
        wider = fitted(x.shape[0], x.shape[1], int(side / share))
        return cropped(resize(x, wider, self.filter), (side, side))

    def _padded(self, x: Floats) -> Floats:
        height, width = x.shape[1:]
        if self.letterbox:
            tall, wide, top, left = self._boxed(height, width)
            grey = np.full((3, tall, wide), self.grey, np.float32)
            grey[:, top : top + height, left : left + width] = x
            return grey
        target = self.pad
        if target is None or target == (height, width):
            return x
        if target[0] < height or target[1] < width:
            raise ValueError(f"image: {(height, width)} pixels do not fit into {target}")
        padded = np.zeros((3, *target), np.float32)
        padded[:, :height, :width] = x
        return padded


def cropped(x: npt.NDArray[Any], size: tuple[int, int], rounded: bool = False) -> npt.NDArray[Any]:
    """The middle of an image (height, width, channels); zeros where it is smaller."""
    height, width = size
    grown = max(x.shape[0], height), max(x.shape[1], width)
    if grown != x.shape[:2]:
        top, left = (grown[0] - x.shape[0]) // 2, (grown[1] - x.shape[1]) // 2
        padded = np.zeros((*grown, x.shape[2]), x.dtype)
        padded[top : top + x.shape[0], left : left + x.shape[1]] = x
        x = padded
    extra = x.shape[0] - height, x.shape[1] - width
    top, left = (round(n / 2) if rounded else n // 2 for n in extra)
    return x[top : top + height, left : left + width]
