"""Pictures as tiles of one size: how families cut them, and what stands for them in a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import parse_object
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import CLIP, FILES, HALF
from rushlight.models.image.processor import Processor
from rushlight.models.image.resize import resize
from rushlight.models.image.settings import Settings

Size = tuple[int, int]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Steps:
    """How tiles are resized, and their bytes made numbers."""

    filter: str = "bicubic"
    scale: float = 1 / 255
    mean: tuple[float, ...] | None = CLIP[0]
    std: tuple[float, ...] | None = CLIP[1]

    def resized(self, pixels: Pixels, size: Size) -> Pixels:
        """Pixels (height, width, 3) at another size."""
        return pixels if pixels.shape[:2] == size else resize(pixels, size, self.filter, True)

    def numbers(self, pixels: Pixels) -> Floats:
        """Normalized pixels (height, width, 3)."""
        values = pixels.astype(np.float32) * np.float32(self.scale)
        if self.mean is not None and self.std is not None:
            mean, std = (np.asarray(v, np.float32) for v in (self.mean, self.std))
            values = (values - mean) / std
        return values.astype(np.float32)

    def __call__(self, tiles: Sequence[Pixels]) -> Floats:
        """Normalized pixels (n, 3, height, width) of tiles of one size."""
        return np.ascontiguousarray(
            np.stack([self.numbers(t) for t in tiles]).transpose(0, 3, 1, 2)
        )


HALVES = Steps(mean=HALF[0], std=HALF[1])


@dataclass(frozen=True)
class Cut:
    """A picture cut: its tiles, their rows and columns, and what else the model takes of it."""

    tiles: list[Pixels]
    rows: int = 0
    columns: int = 0
    inputs: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class TileProcessor:
    """Tiles (n, 3, height, width) of a picture. text: what stands for one that is so cut.

    among: the cut of a picture among others in a prompt, where that differs. nested: tiles are
    (1, n, ...), filled up to the most of a prompt's pictures.
    """

    steps: Steps
    cut: Callable[[Steps, Pixels], Cut]
    text: Callable[[Cut], str]
    among: Callable[[Steps, Pixels], Cut] | None = None
    nested: bool = False

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8; alone: in its prompt."""
        cut = (self.cut if alone or self.among is None else self.among)(self.steps, pixels)
        tiles = self.steps(cut.tiles)
        inputs: dict[str, npt.NDArray[Any]]
        inputs = {"pixels": tiles[None] if self.nested else tiles, **cut.inputs}
        return Picture(inputs, self.text(cut), (pixels.shape[0], pixels.shape[1]))


@dataclass(frozen=True)
class WholeProcessor:
    """Pixels (1, 3, height, width) of a whole picture, by the steps of an image model."""

    steps: Processor
    text: str

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        made = self.steps.one(pixels)[None]
        return Picture({"pixels": made}, self.text, (pixels.shape[0], pixels.shape[1]))


@dataclass(frozen=True)
class RowsProcessor:
    """Pixels (1, 3, height, width) of any size, and their sizes: Pixtral's (Agrawal et al., 2024).

    longest: the sides' largest. step: of the sides. A row of features ends with `between`, the last
    one with `end`.
    """

    steps: Steps
    longest: Size
    step: int
    place: str = "[IMG]"
    between: str = "[IMG_BREAK]"
    end: str = "[IMG_END]"

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        sides: Size = (pixels.shape[0], pixels.shape[1])
        ratio = max(sides[0] / self.longest[0], sides[1] / self.longest[1])
        if ratio > 1:
            sides = int(sides[0] / ratio), int(sides[1] / ratio)
        rows, columns = ((max(side, 1) - 1) // self.step + 1 for side in sides)
        size = (rows * self.step, columns * self.step)
        tile = self.steps([self.steps.resized(pixels, size)])
        lines = self.between.join([self.place * columns] * rows)
        inputs: dict[str, npt.NDArray[Any]]
        inputs = {"pixels": tile, "image_sizes": np.array([size], np.int64)}
        return Picture(inputs, lines + self.end, (pixels.shape[0], pixels.shape[1]))


def stored_settings(files: Mapping[str, bytes]) -> Settings:
    """What a checkpoint's files say of pictures; FormatError for damaged ones."""
    for name in FILES:
        if name in files:
            stored = parse_object(name, files[name])
            inner = stored.get("image_processor", stored if name == FILES[1] else None)
            if isinstance(inner, dict):
                return Settings(inner, name)
    return Settings({}, FILES[1])


def whole_settings(files: Mapping[str, bytes]) -> Settings:
    """What processor_config.json says of a processor of texts with pictures."""
    return Settings(parse_object(FILES[0], files[FILES[0]]) if FILES[0] in files else {}, FILES[0])


def steps_of(said: Settings, default: Steps) -> Steps:
    """The steps that a file says, `default` where it does not."""
    normal = said.flag("do_normalize", default.mean is not None)
    scale = said.number("rescale_factor", default.scale, 1e-9, 1e9)
    return Steps(
        said.filter(default.filter),
        scale if said.flag("do_rescale", True) else 1.0,
        said.three("image_mean", default.mean or CLIP[0]) if normal else None,
        said.three("image_std", default.std or CLIP[1]) if normal else None,
    )


def square(said: Settings, key: str, default: int) -> int:
    """The side that `key` says by a number, or as {"longest_edge": side} and its kin."""
    value = said.values.get(key)
    if isinstance(value, Mapping):
        named = [value[n] for n in ("longest_edge", "shortest_edge", "height") if value.get(n)]
        value = named[0] if named else None
    return said.side(key, default if value is None else value)


def split(pixels: Pixels, rows: int, columns: int) -> list[Pixels]:
    """The tiles of pixels whose sides divide into rows and columns, row by row."""
    tall, wide = pixels.shape[0] // rows, pixels.shape[1] // columns
    return [
        pixels[i * tall : (i + 1) * tall, j * wide : (j + 1) * wide]
        for i in range(rows)
        for j in range(columns)
    ]


def nearest_grid(
    height: int, width: int, tile: Size, least: int, most: int, side: int = 1024
) -> Size:
    """(rows, columns) of `least` to `most` tiles whose ratio is nearest to the picture's.

    Of equal ones the larger, where the picture covers more than half of its tiles (Chen et al.,
    2024). side: the most rows and the most columns.
    """
    longest = min(most, side)
    grids = sorted(
        (
            (columns, rows)
            for columns in range(1, longest + 1)
            for rows in range(1, longest + 1)
            if least <= rows * columns <= most
        ),
        key=lambda grid: grid[0] * grid[1],
    )
    best, nearest = (1, 1), math.inf
    for columns, rows in grids:
        apart = abs(width / height - columns / rows)
        large = width * height > 0.5 * tile[0] * tile[1] * columns * rows
        if apart < nearest or (apart == nearest and large):
            best, nearest = (rows, columns), apart
    return best


def by_scale(height: int, width: int, tile: Size, least: int, most: int) -> Size:
    """(rows, columns) of the tiles that need least enlarging, or else least shrinking (Cohere)."""
    grids = sorted(
        ((w, h) for w in range(1, most + 1) for h in range(1, most + 1) if w * h <= most),
        key=lambda grid: grid[0] * grid[1],
    )
    scales = [min(w * tile[0] / width, h * tile[0] / height) for w, h in grids]
    enough = [scale for scale in scales if scale >= 1]
    columns, rows = grids[scales.index(min(enough) if enough else max(scales))]
    return rows, columns


def ratio_settings(
    said: Settings,
    side: int,
    crops: bool | None,
    find: Callable[[int, int, Size, int, int], Size] | None = None,
) -> Callable[[Steps, Pixels], Cut]:
    """How a file says that pictures are cut into tiles, after which the whole picture follows.

    find: the grid of tiles, `nearest_grid` if not given. crops: whether pictures are cut where the
    file does not say it; None: they are, whatever it says. FormatError for limits that leave no
    number of tiles.
    """
    size = said.values.get("size") or side
    tile = said.pair("size", size if isinstance(size, Mapping) else [size, size])
    least, most = said.whole("min_patches", 1), said.whole("max_patches", 12)
    if least > most or most > 1024:
        raise FormatError(f"{said.name}: min_patches {least} and max_patches {most} fit no tiles")
    cuts = crops is None or said.flag("crop_to_patches", crops)
    find = nearest_grid if find is None else find

    def cut(steps: Steps, pixels: Pixels) -> Cut:
        rows, columns = (1, 1)
        if most > 1 and cuts:
            rows, columns = find(pixels.shape[0], pixels.shape[1], tile, least, most)
        tiles = split(steps.resized(pixels, (tile[0] * rows, tile[1] * columns)), rows, columns)
        if len(tiles) > 1:
            tiles.append(steps.resized(pixels, tile))
        return Cut(tiles, rows, columns)

    return cut


def kept_ratio(height: int, width: int, within: Size) -> Size:
    """The largest size of a picture's ratio within a size, rounded up."""
    tall, wide = within
    if wide / width < tall / height:
        return min(math.ceil(height * (wide / width)), tall), wide
    return tall, min(math.ceil(width * (tall / height)), wide)


def best_size(height: int, width: int, sizes: Sequence[Size]) -> Size:
    """Of these sizes that which keeps most of a picture, and wastes least (Liu et al., 2024)."""
    best, most, least = sizes[0], 0, math.inf
    for tall, wide in sizes:
        scale = min(wide / width, tall / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        wasted = tall * wide - kept
        if kept > most or (kept == most and wasted < least):
            best, most, least = (tall, wide), kept, wasted
    return best


def sizes_of(label: str, value: Any) -> list[Size]:
    """The sizes (height, width) of a list; FormatError names `label` for other values."""
    good = isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and n > 0 for n in pair)
        for pair in value
    )
    if not good or not value:
        raise FormatError(f"{label} is {brief(value)}; it must be pairs of sizes")
    return [(tall, wide) for tall, wide in value]


def unpadded(height: int, width: int, rows: int, columns: int) -> tuple[slice, slice]:
    """The rows and columns of a grid that a picture of this size covers, without its borders."""
    if width / height > columns / rows:
        border = (rows - int(round(height * (columns / width), 7))) // 2
        return slice(border, rows - border), slice(0, columns)
    border = (columns - int(round(width * (rows / height), 7))) // 2
    return slice(0, rows), slice(border, columns - border)


def cut_to_sizes(sizes: Sequence[Size], tile: int) -> Callable[[Steps, Pixels], Cut]:
    """Cuts as LLaVA-NeXT does: the whole picture, then tiles of the best of these sizes.

    The picture keeps its ratio, between black borders.
    """

    def cut(steps: Steps, pixels: Pixels) -> Cut:
        height, width = pixels.shape[:2]
        best = best_size(height, width, sizes)
        inner = kept_ratio(height, width, best)
        top, left = ((whole - part) // 2 for whole, part in zip(best, inner, strict=True))
        canvas = np.zeros((*best, 3), np.uint8)
        canvas[top : top + inner[0], left : left + inner[1]] = steps.resized(pixels, inner)
        rows, columns = best[0] // tile, best[1] // tile
        tiles = [steps.resized(pixels, (tile, tile)), *split(canvas, rows, columns)]
        size = np.array([[height, width]], np.int64)
        return Cut(tiles, rows, columns, {"image_sizes": size})

    return cut


def squared(steps: Steps, pixels: Pixels, tile: int) -> Cut:
    """The whole picture as one tile, after borders of the mean colour made it a square."""
    height, width = pixels.shape[:2]
    side = max(height, width)
    colour = [int(x * 255) for x in steps.mean or (0.0,) * 3]
    canvas = np.full((side, side, 3), colour, np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    canvas[top : top + height, left : left + width] = pixels
    size = np.array([[height, width]], np.int64)
    return Cut([steps.resized(canvas, (tile, tile))], 1, 1, {"image_sizes": size})
