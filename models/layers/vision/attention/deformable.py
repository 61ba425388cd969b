"""Attention to a few places of pictures of several sizes (Zhu et al., 2020)."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.vision import grid_sample
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor

_LARGE = 3.4e38  # the logit of a box at the picture's border


class Deformable(nn.Module):
    """Each query reads a few places of each level around its box, weighed by a softmax.

    points: places of every level, or of each. scale: of offsets, by half the box's size. nearest:
    places are rounded, not mixed of their four neighbours. plain: what is read is the memory as it
    is, and so is the result.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        levels: int,
        points: int | Sequence[int],
        scale: float = 0.5,
        nearest: bool = False,
        plain: bool = False,
    ) -> None:
        counts = [points] * levels if isinstance(points, int) else list(points)
        good = all(type(n) is int and 1 <= n <= 64 for n in counts) and len(counts) == levels
        if heads < 1 or width % heads or levels < 1 or not good:
            raise FormatError(
                f"config.json: {width} channels do not fit {heads} heads, {levels} levels and "
                f"{points} points"
            )
        self.heads, self.counts, self.scale, self.nearest = heads, counts, scale, nearest
        self.sampling_offsets = nn.Linear(width, heads * sum(counts) * 2)
        self.attention_weights = nn.Linear(width, heads * sum(counts))
        self.plain = plain
        if not plain:
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
        heads = self.heads
        value = memory if self.plain else self.value_proj(memory)
        value = value.reshape(batch, -1, heads, width // heads)
        moved = self.sampling_offsets(x).reshape(batch, count, heads, -1, 2)
        weights = self.attention_weights(x).reshape(batch, count, heads, -1)
        weights = weights.softmax(-1).transpose(1, 2).reshape(batch * heads, 1, count, -1)
        center, seen, start, first = boxes[:, :, None, None, :2], [], 0, 0
        for (tall, wide), points in zip(grids, self.counts, strict=True):
            picture = value[:, start : start + tall * wide].permute(0, 2, 3, 1)
            picture = picture.reshape(batch * heads, width // heads, tall, wide)
            side = x.new_tensor([1 / wide, 1 / tall])
            step = (
                boxes[:, :, None, None, 2:] * (self.scale / points)
                if boxes.shape[-1] == 4
                else side
            )
            where = center + moved[:, :, :, first : first + points] * step
            where = where + side * 0.5 if self.nearest else where
            grid = (where * 2 - 1).transpose(1, 2).reshape(batch * heads, count, points, 2)
            mode, outside = ("nearest", "border") if self.nearest else ("bilinear", "zeros")
            seen.append(grid_sample(picture, grid, mode, outside, align_corners=False))
            start, first = start + tall * wide, first + points
        # (batch * heads, channels, n, all points)
        mixed: Tensor = (cat(seen, 3) * weights).sum(3).reshape(batch, width, count).transpose(1, 2)
        if self.plain:
            return mixed
        out: Tensor = self.output_proj(mixed)
        return out


def unsigmoid(x: Tensor) -> Tensor:
    """The logits of shares, which are kept from 0 and 1."""
    return (x.clamp(min=1e-5) / (1 - x).clamp(min=1e-5)).log()


def anchors_of(grids: list[tuple[int, int]], like: Tensor) -> tuple[Tensor, Tensor]:
    """The logits (1, places, 4) of the boxes that places begin with; 1 where they are inside."""
    boxes = []
    for level, (tall, wide) in enumerate(grids):
        middle = centers([(tall, wide)], like)[0].float()
        boxes.append(cat([middle, middle * 0 + 0.05 * 2.0**level], 1))
    places = cat(boxes, 0)
    inside = ((places > 0.01).float() * (places < 0.99).float()).min(-1, keepdim=True)[0]
    clamped = places.clamp(min=0.01, max=0.99)
    logits = (clamped / (1 - clamped)).log() * inside + (1 - inside) * _LARGE
    return logits.unsqueeze(0).to(like.dtype), inside.unsqueeze(0).to(like.dtype)


def centers(grids: Sequence[tuple[int, int]], like: Tensor) -> Tensor:
    """The middles (1, places, 2) of the places of grids in turn, as shares of the picture."""
    points = []
    for tall, wide in grids:
        y = ((arange(tall, device=like.device).float() + 0.5) / tall).unsqueeze(1)
        x = ((arange(wide, device=like.device).float() + 0.5) / wide).unsqueeze(0)
        points.append(stack([x.expand(tall, wide), y.expand(tall, wide)], -1).reshape(-1, 2))
    return cat(points, 0).unsqueeze(0).to(like.dtype)
