"""Where the peaks of heat maps are, finer than their places (Zhang et al., 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SIGMA, _RADIUS = 0.8, 5
_LEAST, _MOST = 0.001, 50.0


def places_of(maps: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The peaks (n, 2), x before y, and their heights (n,) of maps (n, height, width).

    A peak is moved by a step of Newton's method on the logarithm of the map, which is smoothed
    first. A map without positive values has its peak before the first place.
    """
    count, tall, wide = maps.shape
    flat = maps.reshape(count, -1)
    best, heights = flat.argmax(1), flat.max(1)
    points = np.stack([best % wide, best // wide], 1).astype(np.float32)
    points[heights <= 0] = -1
    logs = np.log(np.clip(_smoothed(maps), _LEAST, _MOST))
    # One place more on every side, as its edge is.
    logs = np.pad(logs, ((0, 0), (1, 1), (1, 1)), "edge").reshape(-1)
    step = wide + 2
    index = points[:, 0] + 1 + (points[:, 1] + 1) * step
    at = (index + step * (tall + 2) * np.arange(count)).astype(np.int64)
    here, right, left = (logs[at + d] for d in (0, 1, -1))
    below, above = logs[at + step], logs[at - step]
    first = np.stack([right - left, below - above], 1) / 2
    across = right - 2 * here + left
    down = below - 2 * here + above
    mixed = logs[at + step + 1] - right - below + 2 * here - left - above + logs[at - step - 1]
    second = np.stack([across, mixed / 2, mixed / 2, down], 1).reshape(-1, 2, 2)
    second = second + np.finfo(np.float32).eps * np.eye(2)
    return points - np.linalg.solve(second, first[..., None])[..., 0], heights


def _smoothed(maps: Any) -> Any:
    kernel = np.exp(-0.5 * (np.arange(-_RADIUS, _RADIUS + 1) / _SIGMA) ** 2)
    kernel = kernel / kernel.sum()
    x = maps.astype(np.float64)
    for axis in (1, 2):
        edges = [(0, 0)] * 3
        edges[axis] = (_RADIUS, _RADIUS)
        padded, n = np.pad(x, edges, "symmetric"), x.shape[axis]
        x = sum(
            share * padded.take(np.arange(i, i + n), axis)
            for i, share in enumerate(kernel.tolist())
        )
    return x.astype(maps.dtype)
