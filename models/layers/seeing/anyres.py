"""LLaVA-NeXT's rows: a whole picture, then its tiles joined, a vector after each line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.tiles import (
    Cut,
    Size,
    Steps,
    TileProcessor,
    best_size,
    cut_to_sizes,
    sizes_of,
    square,
    squared,
    steps_of,
    stored_settings,
    unpadded,
)


@dataclass(frozen=True)
class AnyRes:
    """sizes: those that pictures are fitted into. tile: of the tower, whose patches are a `grid`.

    most: tiles whose patches are kept; more are made fewer (LLaVA-OneVision). 0: all.
    """

    sizes: Sequence[Size]
    tile: Size
    grid: Size
    most: int = 0

    def tiles(self, size: Sequence[int]) -> Size:
        """The rows and columns of tiles of a picture of this size."""
        tall, wide = best_size(size[0], size[1], self.sizes)
        return tall // self.tile[0], wide // self.tile[0]

    def covered(self, size: Sequence[int]) -> tuple[slice, slice, Size]:
        """The rows and columns of patches that the picture covers, and how many are kept."""
        rows, columns = (n * m for n, m in zip(self.tiles(size), self.grid, strict=True))
        down, across = unpadded(size[0], size[1], rows, columns)
        tall, wide = down.stop - down.start, across.stop - across.start
        ratio = math.sqrt(tall * wide / (self.most * self.grid[0] ** 2)) if self.most else 0
        if ratio > 1.1:
            tall, wide = int(tall // ratio), int(wide // ratio)
        return down, across, (tall, wide)

    def count(self, size: Sequence[int]) -> int:
        """The rows of features of a picture's tiles, with those after each line."""
        tall, wide = self.covered(size)[2]
        return tall * (wide + 1)

    def joined(self, made: Tensor, size: Sequence[int], newline: Tensor) -> Tensor:
        """Features (1 + tiles, patches, width) of a picture -> (rows, width)."""
        if len(made) == 1:
            return cat([made[0], newline.unsqueeze(0).to(made.dtype)])
        rows, columns = self.tiles(size)
        down, across, (tall, wide) = self.covered(size)
        x = made[1:].reshape(rows, columns, *self.grid, -1).permute(0, 2, 1, 3, 4)
        x = x.reshape(rows * self.grid[0], columns * self.grid[1], -1)[down, across]
        if (tall, wide) != (x.shape[0], x.shape[1]):
            x = x.permute(2, 0, 1).unsqueeze(0)
            x = interpolate(x, size=(tall, wide), mode="bilinear")[0].permute(1, 2, 0)
        line = newline.to(x.dtype).expand(tall, 1, -1)
        return cat([made[0], cat([x, line], 1).reshape(tall * (wide + 1), -1)])


def any_tiles(files: Mapping[str, bytes], res: AnyRes, base: int, place: str) -> TileProcessor:
    """LLaVA-NeXT's and LLaVA-OneVision's; base: the rows of the whole picture."""
    said = stored_settings(files)
    crop = said.values.get("crop_size") if said.flag("do_center_crop", not res.most) else None
    tile = square(said, "crop_size" if crop else "size", res.tile[0])
    if square(said, "size", tile) != tile or tile != res.tile[0]:
        raise FormatError(
            f"{said.name}: size {brief(said.values.get('size'))} and crop_size {brief(crop)} are "
            f"not those of the tower, {res.tile[0]}"
        )
    told = said.values.get("image_grid_pinpoints")
    sizes = sizes_of(f"{said.name}: image_grid_pinpoints", told) if told else res.sizes

    def text(cut: Cut) -> str:
        (size,) = cut.inputs["image_sizes"].tolist()
        return place * (base + (1 if len(cut.tiles) == 1 else res.count(size)))

    among = partial(squared, tile=tile) if res.most else None
    return TileProcessor(steps_of(said, Steps()), cut_to_sizes(sizes, tile), text, among, True)
