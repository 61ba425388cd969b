"""Pages as Donut and Nougat read them: turned, shrunk to fit a sheet, and put in its middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.models.config_schema import parse_object
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import FILES, HALF, IMAGENET
from rushlight.models.image.processor import Floats
from rushlight.models.image.resize import fitted, resize
from rushlight.models.image.settings import Settings

_PAPER = 200  # grey values of 255 from which on a page is a margin


@dataclass(frozen=True)
class PageProcessor:
    """The steps from pixels (height, width, 3) uint8 to normalized ones (3, height, width).

    size: (height, width) of the sheet. margins: they are cut off. turns: the longer side lies along
    the sheet's. resizes: the shorter side becomes the sheet's shorter. shrinks: what is larger than
    the sheet is made smaller, with the filter `shrink`; pads: and put in its middle, on black.
    """

    size: tuple[int, int] = (2560, 1920)
    filter: str = "bilinear"
    shrink: str = "bilinear"
    resizes: bool = True
    shrinks: bool = True
    turns: bool = False
    pads: bool = True
    margins: bool = False
    scale: float = 1 / 255
    mean: tuple[float, ...] | None = HALF[0]
    std: tuple[float, ...] | None = HALF[1]

    def one(self, image: Pixels) -> Floats:
        """Normalized pixels (3, height, width) of one page; ValueError if it is too large."""
        x: npt.NDArray[Any] = cut(image) if self.margins else image
        tall, wide = self.size
        if self.turns and (wide - tall) * (x.shape[1] - x.shape[0]) < 0:
            x = np.rot90(x, 3)
        if self.resizes:
            x = resize(x, fitted(x.shape[0], x.shape[1], min(self.size)), self.filter)
        if self.shrinks:
            x = resize(x, self._within(*x.shape[:2]), self.shrink)
        if self.pads:
            below, right = tall - x.shape[0], wide - x.shape[1]
            if min(below, right) < 0:
                raise ValueError(f"image: {x.shape[:2]} pixels do not fit into {self.size}")
            top, left = below // 2, right // 2
            x = np.pad(x, ((top, below - top), (left, right - left), (0, 0)))
        values = x.astype(np.float32) * np.float32(self.scale)
        if self.mean is not None and self.std is not None:
            mean, std = (np.asarray(v, np.float32) for v in (self.mean, self.std))
            values = (values - mean) / std
        return np.ascontiguousarray(values.transpose(2, 0, 1), np.float32)

    def _within(self, height: int, width: int) -> tuple[int, int]:
        tall, wide = min(height, self.size[0]), min(width, self.size[1])
        if (tall, wide) != (height, width):
            if height > width:
                wide = int(width * tall / height)
            elif width > height:
                tall = int(height * wide / width)
        return max(1, tall), max(1, wide)


def cut(image: Pixels) -> Pixels:
    """A page without its margins: what lies around all that is darker than paper."""
    r, g, b = (image[:, :, i].astype(np.int64) for i in range(3))
    grey = (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16  # as Pillow rounds it
    low, high = int(grey.min()), int(grey.max())
    if low == high:
        return image
    rows, columns = np.nonzero((grey - low) / (high - low) * 255 < _PAPER)
    return image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def page_processor(files: Mapping[str, bytes]) -> PageProcessor | None:
    """The processor of Donut or Nougat that a checkpoint's files describe; None for another.

    FormatError for values that are out of range.
    """
    for name in FILES:
        stored = parse_object(name, files[name]) if name in files else {}
        v = stored.get("image_processor", stored if name == FILES[1] else None)
        if not isinstance(v, dict):
            continue
        kind = str(v.get("image_processor_type") or v.get("feature_extractor_type") or "")
        if not kind.startswith(("Donut", "Nougat")):
            return None
        said, nougat = Settings(v, name), kind.startswith("Nougat")
        size = v.get("size", {"height": 896, "width": 672} if nougat else None)
        if isinstance(size, list):  # older files have the width first
            size = size[::-1]
        usual = IMAGENET if nougat else HALF
        normal = said.flag("do_normalize", True)
        chosen = said.filter("bilinear")
        return PageProcessor(
            (2560, 1920) if size is None else said.pair("size", size),
            chosen,
            "bicubic" if nougat else chosen,
            said.flag("do_resize", True),
            said.flag("do_thumbnail", True),
            said.flag("do_align_long_axis", False),
            said.flag("do_pad", True),
            nougat and said.flag("do_crop_margin", True),
            said.number("rescale_factor", 1 / 255, 1e-9, 1e9)
            if said.flag("do_rescale", True)
            else 1.0,
            said.three("image_mean", usual[0]) if normal else None,
            said.three("image_std", usual[1]) if normal else None,
        )
    return None
