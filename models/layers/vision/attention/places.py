"""Positions that attention adds: biases of distances, and rotations by a patch's place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put

Rotation = tuple[Tensor, Tensor]
_TO_CLASS = 3  # distances of the class: from it, to it, and its own


class RelativeBias(nn.Module):
    """Biases of distances within a grid, after a class token where there is (Bao et al., 2021).

    A picture of another size has the table interpolated.
    """

    def __init__(self, heads: int, grid: tuple[int, int], first: bool = True) -> None:
        self.grid, self.special = grid, _TO_CLASS if first else 0
        count = (2 * grid[0] - 1) * (2 * grid[1] - 1) + self.special
        self.relative_position_bias_table = parameter(count, heads)

    def forward(self, grid: tuple[int, int]) -> Tensor:
        """What attention adds (1, heads, tokens, tokens)."""
        table = self.relative_position_bias_table
        last = len(table) - self.special
        distances, special = table[:last], table[last:]
        sides = 2 * grid[0] - 1, 2 * grid[1] - 1
        if grid != self.grid:
            old = 2 * self.grid[0] - 1, 2 * self.grid[1] - 1
            square = distances.reshape(1, *old, -1).permute(0, 3, 1, 2)
            square = interpolate(square, size=sides, mode="bilinear")
            distances = square.permute(0, 2, 3, 1).reshape(math.prod(sides), -1)
        bias, count = between(distances, grid), math.prod(grid)
        if not self.special:
            return bias.permute(2, 0, 1).unsqueeze(0)
        onward, back, class_to_itself = (special[i].reshape(1, 1, -1) for i in range(_TO_CLASS))
        below = cat([back.expand(count, 1, -1), bias], 1)
        above = cat([class_to_itself, onward.expand(1, count, -1)], 1)
        return cat([above, below], 0).permute(2, 0, 1).unsqueeze(0)


def between(distances: Tensor, grid: tuple[int, int]) -> Tensor:
    """Of each two places of a grid what a table of distances (n, heads) says."""
    apart = []
    for n in grid:
        place = arange(n, device=distances.device)
        apart.append(place.unsqueeze(1) - place + (n - 1))
    count, (tall, wide) = math.prod(grid), apart
    step = 2 * grid[1] - 1
    index = tall.reshape(grid[0], 1, grid[0], 1) * step + wide.reshape(1, grid[1], 1, -1)
    return distances.index_select(0, index.reshape(-1)).reshape(count, count, -1)


def pairs(tall: Tensor, wide: Tensor) -> Tensor:
    """Each number of `tall` with each of `wide` (n, 2), those of `wide` the fastest."""
    first = tall.unsqueeze(1).expand(len(tall), len(wide)).reshape(-1)
    return stack([first, wide.repeat(len(tall))], 1)


class LogarithmicBias(nn.Module):
    """Biases that two products make of logarithms of distances (Liu et al., 2022), as in timm.

    before: tokens before the patches, which have none.
    """

    def __init__(self, heads: int, inner: int, before: int) -> None:
        self.before = before
        put(self, "mlp.fc1", nn.Linear(2, inner))
        put(self, "mlp.fc2", nn.Linear(inner, heads))

    def forward(self, grid: tuple[int, int]) -> Tensor:
        """What attention adds (1, heads, tokens, tokens)."""
        first, last = list[Any](self.get_submodule("mlp").children())
        steps = [arange(1 - n, n, device=first.weight.device).to(first.weight.dtype) for n in grid]
        tall, wide = (step.sign() * (step.abs() + 1).log() for step in steps)
        bias = between(last(relu(first(pairs(tall, wide)))), grid).permute(2, 0, 1).unsqueeze(0)
        return pad(bias, (self.before, 0, self.before, 0)) if self.before else bias


@dataclass(frozen=True)
class Rotary:
    """Rotations of queries and keys by the place of a patch.

    grid: None for places from -1 to 1 (Siméoni et al., 2025), (0, 0) for their numbers (Heo et al.,
    2024), else the grid of training, to whose places those of another picture are scaled (Fang et
    al., 2023). interleaved: pairs lie side by side, not in halves of the head. across: the places
    in a row come before the rows.
    """

    head: int
    theta: float
    grid: tuple[int, int] | None = None
    interleaved: bool = False
    across: bool = False

    def tables(self, grid: tuple[int, int], before: int, like: Tensor) -> Rotation:
        """Cosines and sines (before + patches, head); the tokens before them are not rotated."""
        bands = arange(self.head // 4, device=like.device).float() * (-4 / self.head)
        bands = (bands * math.log(self.theta)).exp()
        angles = []
        for i, n in enumerate(grid):
            place = arange(n, device=like.device).float()
            if self.grid is None:
                place = ((place + 0.5) / n * 2 - 1) * (2 * math.pi)
            elif self.grid[i]:
                place = place / n * self.grid[i]
            angles.append(place.unsqueeze(1) * bands)
        quarter = len(bands)
        tall = angles[0].unsqueeze(1).expand(*grid, quarter)
        wide = angles[1].unsqueeze(0).expand(*grid, quarter)
        both_axes = cat([wide, tall] if self.across else [tall, wide], -1)
        return self._turned(both_axes.reshape(math.prod(grid), 2 * quarter), before, like)

    def mixed(
        self, bands: Tensor, grid: tuple[int, int], before: int, like: Tensor
    ) -> list[Rotation]:
        """The tables of each layer, of learned bands (2, layers, heads, head / 2) by Heo et al.

        The first bands are those of the places in a row.
        """
        rows, columns = (arange(n, device=like.device).float() for n in grid)
        places = pairs(rows, columns)  # (patches, 2)
        first, second = bands.float().unsqueeze(-2)  # (layers, heads, 1, head / 2) each
        angles = places[:, 1:] * first + places[:, :1] * second
        return [self._turned(layer_angles, before, like) for layer_angles in angles]

    def _turned(self, angles: Tensor, before: int, like: Tensor) -> Rotation:
        """Cosines and sines of angles (.., patches, head / 2), of each twice."""
        if self.interleaved:
            angles = stack([angles, angles], -1).flatten(-2)
        else:
            angles = cat([angles, angles], -1)
        first = angles.new_zeros(*angles.shape[:-2], before, angles.shape[-1])
        angles = cat([first, angles], -2)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    def rotate(self, x: Tensor, tables: Rotation) -> Tensor:
        """x (batch, heads, tokens, head) rotated by the places of its tokens."""
        half = self.head // 2
        if self.interleaved:
            pairs = x.reshape(*x.shape[:-1], half, 2)
            turned = stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape)
        else:
            turned = cat([-x[..., half:], x[..., :half]], -1)
        return x * tables[0] + turned * tables[1]
