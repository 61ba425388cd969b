"""Results of the vision tasks drawn into their picture, by Pillow."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.models.image.files import load
from rushlight.models.image.resize import stretched


class Drawable:
    """A task's result of one image, which it keeps, with `plot`."""

    image: Any = None

    def plot(self, image: Any = None, *, names: bool = True) -> Any:
        """A picture (PIL.Image.Image) of the image with the result in it, see `plot`.

        image: another one of the same size, else what the task was given.
        """
        return plot(self.image if image is None else image, self, names=names)


class Rows(Drawable, list[dict[str, Any]]):
    """A list of objects, poses, segments or masks."""


class Fields(Drawable, dict[str, Any]):
    """A mask or depths by name."""


def drawable(images: Any, pixels: Sequence[Any], found: Sequence[Any]) -> Any:
    """What a task found in images with `plot`: a list, or of a single image its own."""
    results = []
    for image, result in zip(pixels, found, strict=True):
        results.append(Rows(result) if isinstance(result, list) else Fields(result))
        results[-1].image = image
    return results if isinstance(images, list | tuple) else results[0]


_TURN = 0.61803399  # of the color wheel between classes: the golden ratio keeps them apart
_OPACITY = 0.5


def plot(image: Any, result: Any, *, names: bool = True) -> Any:
    """A picture (PIL.Image.Image) of an image with a task's result in it.

    image: what `load` takes. result: of object-detection, zero-shot-object-detection,
    pose-estimation, image-segmentation, mask-generation, background-removal (what is left of the
    image, the rest transparent), depth-estimation (shades of grey), image-to-image (what it made),
    keypoint-detection or a classification, for one image. names: whether labels and scores are
    written. ImportError without Pillow (pip install
    'rushlight[image]'), TypeError for what is no such result.
    """
    from PIL import Image, ImageDraw, ImageFont

    pixels = load(image)
    if isinstance(result, Mapping) and "depth" in result:
        return Image.fromarray(stretched(np.asarray(result["depth"])))
    if isinstance(result, Mapping) and "image" in result:
        return Image.fromarray(np.asarray(result["image"]))
    if isinstance(result, Mapping) and "mask" in result:
        cutout = Image.fromarray(pixels)
        cutout.putalpha(Image.fromarray(np.asarray(result["mask"])))
        return cutout
    rows: Sequence[Any] = [result] if isinstance(result, Mapping) else result
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError(f"plot: {type(result).__name__} is no result of a vision task")
    shades = {name: _color(i) for i, name in enumerate(_classes(rows))}
    colors = [shades[_class(i, row)] for i, row in enumerate(rows)]
    values: Any = pixels.astype(np.float32)
    for row, color in zip(rows, colors, strict=True):
        if "mask" in row:
            inside = np.asarray(row["mask"]).astype(np.float32)[..., None] / 255 * _OPACITY
            values = values * (1 - inside) + np.array(color, np.float32) * inside
    picture = Image.fromarray(values.round().clip(0, 255).astype(np.uint8))
    draw, line = ImageDraw.Draw(picture), max(1, round(min(pixels.shape[:2]) / 200))
    font = ImageFont.load_default(max(10, line * 7))
    top = 0.0
    for row, color in zip(rows, colors, strict=True):
        corner = None
        if box := row.get("box"):
            corner = box["xmin"], box["ymin"]
            edges = (*corner, max(box["xmax"], corner[0]), max(box["ymax"], corner[1]))
            draw.rectangle(edges, outline=color, width=line)
        for point in row.get("keypoints", ()):
            x, y, r = point["x"], point["y"], line * 2
            draw.ellipse((x - r, y - r, x + r, y + r), fill=color)
        if names and (text := _words(row)):
            anchor = corner or (0.0, top)
            left, above, right, below = draw.textbbox(anchor, text, font)
            top += 0 if corner else below - above + 4 * line
            draw.rectangle((left - line, above - line, right + line, below + line), fill=color)
            draw.text(anchor, text, fill=_readable(color), font=font)
    return picture


def _class(number: int, row: Mapping[str, Any]) -> str:
    return str(row.get("label", f"#{number}"))


def _classes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(_class(i, row) for i, row in enumerate(rows)))


def _color(number: int) -> tuple[int, int, int]:
    shares = colorsys.hsv_to_rgb(number * _TURN % 1, 0.85, 0.95)
    red, green, blue = (round(255 * share) for share in shares)
    return red, green, blue


def _readable(color: tuple[int, int, int]) -> tuple[int, int, int]:
    bright = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    return (0, 0, 0) if bright > 140 else (255, 255, 255)


def _words(row: Mapping[str, Any]) -> str:
    score = f" {row['score']:.2f}" if isinstance(row.get("score"), float) else ""
    return f"{row['label']}{score}" if "label" in row else ""
