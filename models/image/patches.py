"""Pictures as patches of any grid: Qwen's processor, whose sides follow the picture's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import CLIP
from rushlight.models.image.resize import resize
from rushlight.models.image.tiles import stored_settings

_STEEPEST = 200  # the largest ratio of the sides


@dataclass(frozen=True)
class PatchProcessor:
    """Patches (n, channels * time * side * side), `merge` x `merge` neighbours one after another.

    Sides become multiples of `patch * merge`, the ratio is kept as nearly as that allows, and the
    picture has `least` to `most` pixels, in all frames that GLM makes of it. place: the text of one
    row of features. blocks: false for patches row by row.
    """

    patch: int = 14
    time: int = 2
    merge: int = 2
    least: int = 56 * 56
    most: int = 28 * 28 * 1280
    filter: str = "bicubic"
    scale: float = 1 / 255
    mean: tuple[float, ...] | None = CLIP[0]
    std: tuple[float, ...] | None = CLIP[1]
    resizes: bool = True
    place: str = "<|image_pad|>"
    frames: int = 0
    blocks: bool = True

    def target(self, height: int, width: int) -> tuple[int, int]:
        """The size that a picture is resized to; ValueError for one that is too narrow."""
        step = self.patch * self.merge
        if not self.resizes:
            if height % step or width % step:
                raise ValueError(
                    f"image: {height} x {width} pixels; without do_resize sides must be multiples "
                    f"of {step}"
                )
            return height, width
        if self.frames and min(height, width) < step:
            share = max(step / height, step / width)
            height, width = int(height * share), int(width * share)
        if not self.blocks and height < step:
            height, width = step, round(width * step / height)
        if not self.blocks and width < step:
            height, width = round(height * step / width), step
        if max(height, width) > _STEEPEST * min(height, width):
            raise ValueError(
                f"image: {height} x {width} pixels are too narrow; the longer side may be "
                f"{_STEEPEST} times the shorter; crop the picture"
            )
        tall, wide = (round(side / step) * step for side in (height, width))
        times = self.frames or 1
        if times * tall * wide > self.most:
            share = math.sqrt(times * height * width / self.most)
            tall, wide = (
                max(step, math.floor(side / share / step) * step) for side in (height, width)
            )
        elif times * tall * wide < self.least:
            share = math.sqrt(self.least / (times * height * width))
            tall, wide = (math.ceil(side * share / step) * step for side in (height, width))
        return tall, wide

    def rows(self, height: int, width: int) -> int:
        """The rows of features of a picture of this size: its tokens in a prompt."""
        tall, wide = self.target(height, width)
        return (tall // (self.patch * self.merge)) * (wide // (self.patch * self.merge))

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        tall, wide = self.target(*pixels.shape[:2])
        values = resize(pixels, (tall, wide), self.filter, True).astype(np.float32)
        values = values * np.float32(self.scale)
        if self.mean is not None and self.std is not None:
            values = (values - np.float32(self.mean)) / np.float32(self.std)
        rows, columns = tall // self.patch, wide // self.patch
        grid = (1, rows // self.merge, columns // self.merge)
        return Picture(
            {
                "pixels": self._patches(values.astype(np.float32)),
                "image_grid_thw": np.array([[1, rows, columns]], np.int64),
            },
            self.place * (grid[1] * grid[2]),
            (pixels.shape[0], pixels.shape[1]),
            grid,
        )

    def _patches(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        tall, wide, channels = values.shape
        side, merge = self.patch, self.merge if self.blocks else 1
        blocks = values.reshape(
            tall // side // merge, merge, side, wide // side // merge, merge, side, channels
        ).transpose(0, 3, 1, 4, 6, 2, 5)
        times = np.repeat(blocks[:, :, :, :, :, None], self.time, 5)
        return np.ascontiguousarray(times.reshape(tall // side * (wide // side), -1))


def patch_processor(
    files: Mapping[str, bytes], default: PatchProcessor, place: str
) -> PatchProcessor:
    """The processor that a checkpoint's files describe; `default` says what they leave out.

    place: the text of one row of features. FormatError for values that are out of range.
    """
    said = stored_settings(files)
    values, name = said.values, said.name
    size = values.get("size") or {}
    if not isinstance(size, Mapping):
        raise said.bad("size", size)
    least = values.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels")
    most = values.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels")
    limits = []
    for key, value, usual in (
        ("min_pixels", least, default.least), ("max_pixels", most, default.most),
    ):  # fmt: skip
        value = usual if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1 << 26:
            raise said.bad(key, value)
        limits.append(value)
    if limits[0] > limits[1]:
        raise FormatError(f"{name}: min_pixels {limits[0]} is above max_pixels {limits[1]}")
    normal = said.flag("do_normalize", default.mean is not None)
    return PatchProcessor(
        said.whole("patch_size", default.patch),
        said.whole("temporal_patch_size", default.time),
        said.whole("merge_size", default.merge),
        limits[0],
        limits[1],
        said.filter(default.filter),
        said.number("rescale_factor", default.scale, 1e-9, 1e9)
        if said.flag("do_rescale", True)
        else 1.0,
        said.three("image_mean", default.mean or CLIP[0]) if normal else None,
        said.three("image_std", default.std or CLIP[1]) if normal else None,
        said.flag("do_resize", default.resizes),
        place,
        default.frames,
        default.blocks,
    )
