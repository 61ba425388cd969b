"""Pictures as rows of patches with their places, as Pix2Struct reads them; questions over them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import parse_object
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import FILES
from rushlight.models.image.resize import resize
from rushlight.models.image.settings import Settings

_LINE, _SIZE, _AROUND = 80, 36, 5  # letters of a line, and pixels of a header


@dataclass(frozen=True)
class FlatProcessor:
    """Up to `most` patches (row + 1, column + 1, values) of a picture whose ratio is kept.

    headed: a text is written over the picture. normal: by the picture's own mean and deviation.
    """

    most: int = 2048
    patch: tuple[int, int] = (16, 16)
    headed: bool = False
    normal: bool = True

    def __call__(self, image: Pixels, header: str = "") -> dict[str, npt.NDArray[np.float32]]:
        """Patches (1, most, 2 + values) and their mask (1, most); ValueError without a header that
        the model needs.
        """
        if self.headed:
            if not header:
                raise ValueError("image: the model reads a question over the picture; give one")
            image = headed(image, header)
        x = image.astype(np.float32)
        if self.normal:
            x = (x - x.mean()) / max(float(x.std()), x.size**-0.5)
        tall, wide = self.patch
        scale = (self.most * (tall / x.shape[0]) * (wide / x.shape[1])) ** 0.5
        rows, columns = (
            max(min(int(scale * side / n), self.most), 1)
            for side, n in zip(x.shape, self.patch, strict=False)
        )
        x = resize(x.astype(np.float32), (rows * tall, columns * wide), "bilinear")
        x = x.reshape(rows, tall, columns, wide, 3).transpose(0, 2, 1, 3, 4)
        patches = np.zeros((1, self.most, 2 + tall * wide * 3), np.float32)
        count = rows * columns
        patches[0, :count, :2] = np.indices((rows, columns)).reshape(2, -1).T + 1
        patches[0, :count, 2:] = x.reshape(count, -1)
        return {"pixels": patches, "mask": (patches.sum(2) != 0).astype(np.float32)}


def headed(image: Pixels, text: str) -> Pixels:
    """A picture under a white band with a text, in Pillow's own font.

    FormatError without Pillow.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise FormatError(
            "image: a question is written over the picture by Pillow: pip install "
            "'rushlight[image]'"
        ) from None
    said, font = "\n".join(textwrap.wrap(text, _LINE)), ImageFont.load_default(_SIZE)
    _, _, wide, tall = ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox((0, 0), said, font=font)
    band = Image.new("RGB", (int(wide) + 2 * _AROUND, int(tall) + 2 * _AROUND), "white")
    ImageDraw.Draw(band).text((_AROUND, _AROUND), said, fill="black", font=font)
    below = Image.fromarray(image)
    width = max(band.width, below.width)
    heights = [int(part.height * (width / part.width)) for part in (band, below)]
    whole = Image.new("RGB", (width, sum(heights)), "white")
    whole.paste(band.resize((width, heights[0])), (0, 0))
    whole.paste(below.resize((width, heights[1])), (0, heights[0]))
    pixels: Pixels = np.asarray(whole)
    return pixels


def flat_processor(files: Mapping[str, bytes]) -> FlatProcessor:
    """The processor that a checkpoint's files describe; FormatError for values out of range."""
    for name in FILES:
        stored = parse_object(name, files[name]) if name in files else {}
        v: Any = stored.get("image_processor", stored if name == FILES[1] else None)
        if isinstance(v, dict):
            said = Settings(v, name)
            return FlatProcessor(
                said.whole("max_patches", 2048),
                said.pair("patch_size", v.get("patch_size", 16)),
                said.flag("is_vqa", False),
                said.flag("do_normalize", True),
            )
    return FlatProcessor()
