"""Windows of a picture, within which attention looks (Liu et al., 2021)."""

from __future__ import annotations

from rushlight.core.functional.network.padding import pad
from rushlight.core.ops.creation import arange
from rushlight.core.tensor.tensor import Tensor


def filled(x: Tensor, n: int) -> Tensor:
    """x (batch, height, width, channels) with zeros below and right, so that windows of n fit."""
    below, right = -x.shape[1] % n, -x.shape[2] % n
    return pad(x, (0, 0, 0, right, 0, below)) if below or right else x


def parted(x: Tensor, n: int) -> Tensor:
    """The windows (batch * windows, n, n, channels) of x (batch, height, width, channels).

    Height and width are multiples of n.
    """
    batch, tall, wide, width = x.shape
    x = x.reshape(batch, tall // n, n, wide // n, n, width)
    return x.transpose(2, 3).reshape(-1, n, n, width)


def joined(windows: Tensor, grid: tuple[int, int]) -> Tensor:
    """The picture (batch, height, width, channels) that `parted` divided; grid: its sides."""
    n, width = windows.shape[2:]
    x = windows.reshape(-1, grid[0] // n, grid[1] // n, n, n, width)
    return x.transpose(2, 3).reshape(-1, *grid, width)


def distance_biases(table: Tensor, n: int) -> Tensor:
    """Biases (heads, n * n, n * n) of a window's places by their distances down and across.

    table (heads, n * n): of each pair of distances, which have no sign (Graham et al., 2021).
    """
    place = arange(n, device=table.device)
    apart = (place.unsqueeze(1) - place).abs()
    index = apart.reshape(n, 1, n, 1) * n + apart.reshape(1, n, 1, n)
    return table.index_select(1, index.reshape(-1)).reshape(-1, n * n, n * n)
