"""Attention to a few places of pictures of several sizes (Zhu et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import grid_sample
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor


class Deformable(nn.Module):
    """Each query reads `points` places of each level around its box, weighed by a softmax."""

    def __init__(self, width: int, heads: int, levels: int, points: int) -> None:
        if heads < 1 or width % heads or min(levels, points) < 1:
            raise FormatError(
                f"config.json: {width} channels do not fit {heads} heads, {levels} levels and "
                f"{points} points"
            )
        self.heads, self.levels, self.points = heads, levels, points
        self.sampling_offsets = nn.Linear(width, heads * levels * points * 2)
        self.attention_weights = nn.Linear(width, heads * levels * points)
        self.value_proj = nn.Linear(width, width)
        self.output_proj = nn.Linear(width, width)

    def forward(
        self, x: Tensor, memory: Tensor, boxes: Tensor, grids: Sequence[tuple[int, int]]
    ) -> Tensor:
        """x (batch, n, width); memory (batch, places, width), of the levels' grids in turn.

        boxes (batch, n, 4): center, width and height as shares of the picture; or (batch, n, 2)
        centers, from which offsets are steps of each level's grid.
        """
        batch, count, width = x.shape
        heads, levels, points = self.heads, self.levels, self.points
        value = self.value_proj(memory).reshape(batch, -1, heads, width // heads)
        moved = self.sampling_offsets(x).reshape(batch, count, heads, levels, points, 2)
        weights = self.attention_weights(x).reshape(batch, count, heads, levels * points)
        weights = weights.softmax(-1).transpose(1, 2).reshape(batch * heads, 1, count, -1)
        center = boxes[:, :, None, None, None, :2]
        if boxes.shape[-1] == 4:
            step = boxes[:, :, None, None, None, 2:] * (0.5 / points)
        else:
            sides = x.new_tensor([[1 / wide, 1 / tall] for tall, wide in grids])
            step = sides.reshape(1, 1, 1, levels, 1, 2)
        points_seen = (center + moved * step) * 2 - 1
        seen, start = [], 0
        for i, (tall, wide) in enumerate(grids):
            picture = value[:, start : start + tall * wide].permute(0, 2, 3, 1)
            picture = picture.reshape(batch * heads, width // heads, tall, wide)
            grid = points_seen[:, :, :, i].transpose(1, 2).reshape(batch * heads, count, points, 2)
            seen.append(grid_sample(picture, grid, mode="bilinear", align_corners=False))
            start += tall * wide
        # (batch * heads, channels, n, levels * points)
        mixed = (cat(seen, 3) * weights).sum(3).reshape(batch, width, count).transpose(1, 2)
        projected: Tensor = self.output_proj(mixed)
        return projected
