"""Regions of a mask, the least rectangles around them, and what of a picture lies in these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def regions(mask: Array) -> Iterator[Array]:
    """The ends (n, 2), x before y, of the runs of each region of a mask (height, width): the first
    halves are the left ones.

    A region is what is connected by sides or corners. Those that begin higher come first.
    """
    height, width = mask.shape
    edged = np.zeros((height, width + 2), np.int8)
    edged[:, 1:-1] = mask != 0
    rows, columns = np.nonzero(np.diff(edged, axis=1))
    if not len(rows):
        return
    row, first, last = rows[::2], columns[::2], columns[1::2] - 1
    # A run touches those of the next row that begin before it ends and end after it begins.
    stride = width + 4
    begins, ends = row * stride + first, row * stride + last
    low = np.searchsorted(ends, (row + 1) * stride + first - 1)
    high = np.searchsorted(begins, (row + 1) * stride + last + 1, "right")
    counts = np.maximum(high - low, 0)
    above = np.repeat(np.arange(len(row)), counts)
    below = np.arange(len(above)) - np.repeat(np.cumsum(counts) - counts, counts) + low[above]
    label = _joined(len(row), above, below)
    order = np.argsort(label, kind="stable")
    for runs in np.split(order, np.nonzero(np.diff(label[order]))[0] + 1):
        x = np.concatenate([first[runs], last[runs]])
        yield np.stack([x, np.tile(row[runs], 2)], 1).astype(np.float64)


def _joined(count: int, one: Array, other: Array) -> Array:
    """For each of `count` things the least that it is connected to by these pairs."""
    label = np.arange(count)
    while True:
        before = label.copy()
        least = np.minimum(label[one], label[other])
        for side in (one, other):
            np.minimum.at(label, label[side], least)
            np.minimum.at(label, side, least)
        while not np.array_equal(label, label[label]):
            label = label[label]
        if np.array_equal(label, before):
            return label


def hull(points: Array) -> Array:
    """The corners (n, 2) of the convex hull of points, in order (Andrew, 1979)."""
    ordered = np.unique(points, axis=0)
    if len(ordered) < 3:
        return ordered
    halves = []
    for row in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for x, y in row.tolist():
            while len(chain) > 1:
                (a, b), (c, d) = chain[-2:]
                if (c - a) * (y - b) - (d - b) * (x - a) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        halves += chain[:-1]
    return np.array(halves)


def least_rectangle(points: Array) -> Array:
    """The corners (4, 2) of the least rectangle around points: upper left, upper right, lower
    right, lower left, as they lie in the picture.

    One of its sides lies along a side of the hull (Freeman and Shapira, 1975).
    """
    around = hull(points)
    sides = np.diff(around, axis=0, append=around[:1])
    angles = np.unique(np.arctan2(sides[:, 1], sides[:, 0]) % (np.pi / 2))
    along = np.stack([np.cos(angles), np.sin(angles)], 1)
    across = np.stack([-along[:, 1], along[:, 0]], 1)
    spans = [(axis @ around.T).min(1) for axis in (along, across)]
    spans += [(axis @ around.T).max(1) for axis in (along, across)]
    left, top, right, bottom = spans
    best = int(np.argmin((right - left) * (bottom - top)))
    places = ((left, top), (right, top), (right, bottom), (left, bottom))
    return upright(np.array([x[best] * along[best] + y[best] * across[best] for x, y in places]))


def upright(corners: Array) -> Array:
    """Corners (4, 2) of a quadrangle from the upper left one on, clockwise."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (pair[np.argsort(pair[:, 1], kind="stable")] for pair in (by_x[:2], by_x[2:]))
    return np.array([left[0], right[0], right[1], left[1]])


def sides(corners: Array) -> tuple[float, float]:
    """The lengths of the upper or lower side, and of the left or right one, whichever is longer."""
    a, b, c, d = corners
    norm = np.linalg.norm
    return float(max(norm(b - a), norm(c - d))), float(max(norm(d - a), norm(c - b)))


def grown(corners: Array, distance: float) -> Array:
    """A rectangle (4, 2) with each side so much further out."""
    a, b, _, d = corners
    wide, high = sides(corners)
    along, down = (b - a) / max(wide, 1e-9), (d - a) / max(high, 1e-9)
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return corners + distance * np.array([x * along + y * down for x, y in signs])


def mean_of(values: Array, ends: Array) -> float:
    """The mean of values (height, width) in a region, whose `ends` are those of `regions`."""
    first, last = np.split(ends.astype(np.int64), 2)
    low = last[:, 1].min()
    sums = np.pad(np.cumsum(values[low : last[:, 1].max() + 1], 1, np.float64), ((0, 0), (1, 0)))
    rows = first[:, 1] - low
    total = sums[rows, last[:, 0] + 1] - sums[rows, first[:, 0]]
    return float(total.sum() / (last[:, 0] - first[:, 0] + 1).sum())


def cut(image: Array, corners: Array) -> Array:
    """What lies in a quadrangle (4, 2) of a picture (height, width, channels), made upright.

    Its first corner becomes the upper left one, the second the upper right one. Places between
    pixels are bilinear, those outside have the nearest pixel's values.
    """
    wide, high = (max(1, round(side)) for side in sides(corners))
    corners = np.asarray(corners, np.float64)
    turns = _turns(corners)
    if turns is not None:
        low = np.maximum(np.rint(corners.min(0)).astype(int), 0)
        end = np.rint(corners.max(0)).astype(int)
        part = image[low[1] : max(end[1], low[1] + 1), low[0] : max(end[0], low[0] + 1)]
        if part.size:
            return np.rot90(part, turns)
    # The projective map of the unit square to the corners (Heckbert, 1989).
    a, b, c, d = corners
    (e, f), g = np.stack([b - c, d - c]), a - b + c - d
    scale = e[0] * f[1] - e[1] * f[0]
    u = (g[0] * f[1] - g[1] * f[0]) / scale if scale else 0.0
    v = (e[0] * g[1] - e[1] * g[0]) / scale if scale else 0.0
    x = ((np.arange(wide) + 0.5) / wide)[None, :, None]
    y = ((np.arange(high) + 0.5) / high)[:, None, None]
    places = (a + (b - a + u * b) * x + (d - a + v * d) * y) / (1 + u * x + v * y) - 0.5
    return sampled(image, places)


def _turns(corners: Array) -> int | None:
    """How often to turn what lies in a box of whole sides by 90 degrees; None for another form."""
    along = np.diff(corners, axis=0, append=corners[:1])
    if (np.abs(along).min(1) > 0.5).any():
        return None
    side = along[0]
    return int(round(np.arctan2(side[1], side[0]) / (np.pi / 2))) % 4


def sampled(image: Array, places: Array) -> Array:
    """The values of a picture at places (height, width, 2), x before y, bilinear, as bytes."""
    most = np.array(image.shape[1::-1]) - 1
    places = np.clip(places, 0, most)
    first = np.minimum(places.astype(np.int64), np.maximum(most - 1, 0))
    share = (places - first).astype(np.float32)
    x, y = first[..., 0], first[..., 1]
    right, below = np.minimum(x + 1, most[0]), np.minimum(y + 1, most[1])
    across, down = share[..., :1], share[..., 1:]
    upper = image[y, x] * (1 - across) + image[y, right] * across
    lower = image[below, x] * (1 - across) + image[below, right] * across
    pixels: Array = np.rint(upper * (1 - down) + lower * down).astype(np.uint8)
    return pixels


def joined(quads: list[Array]) -> list[Array]:
    """Rectangles (4, 2) of words as those of lines: of words beside one another, of like height.

    A word that is hardly longer than it is high lies as most words do.
    """
    if not quads:
        return []
    lengths = np.array([sides(quad) for quad in quads])
    long = np.maximum(*lengths.T) > 2.5 * np.minimum(*lengths.T)
    tall = lengths[:, 1] > lengths[:, 0]
    most = lengths[long & tall].sum() > lengths[long & ~tall].sum()
    corners = np.array(quads)
    down = np.where(long, tall, most)
    corners[down] = np.roll(corners[down], -1, axis=1)
    begins, ends = corners[:, [0, 3]].mean(1), corners[:, 1:3].mean(1)
    along = ends - begins
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    heights = np.linalg.norm(corners[:, 3] - corners[:, 0], axis=1)
    gap = begins[None] - ends[:, None]
    after = (gap * along[:, None]).sum(2)
    aside = np.abs(gap[..., 0] * along[:, None, 1] - gap[..., 1] * along[:, None, 0])
    high = np.minimum(heights[:, None], heights[None])
    near = (after > -0.5 * high) & (after < high) & (aside < 0.4 * high)
    near &= (np.maximum(heights[:, None], heights[None]) < 2 * high) & (along @ along.T > 0.9)
    one, other = np.nonzero(near & ~np.eye(len(quads), dtype=bool))
    label = _joined(len(quads), one, other)
    return [least_rectangle(corners[label == i].reshape(-1, 2)) for i in np.unique(label)]
