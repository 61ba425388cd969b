"""The order in which lines of text on a page are read: rows, columns, what is above them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# A column of running text has at least _LINES lines, of which half are _WIDE times as wide as they
# are high, and at least _FULL of the column: prices and labels are no such column.
_LINES, _WIDE, _FULL = 3, 6.0, 0.55
_GUTTER = 0.6  # of a line's height: the least width of what is empty between two columns


def turn_of(corners: Array) -> int:
    """How often a page is to be turned by 90 degrees against the clock so that it can be read.

    corners (n, 4, 2): of its lines, the first where a line begins, the second above its end.
    """
    along = corners[:, 1] - corners[:, 0]
    votes = np.zeros(4)
    quarter = np.rint(np.arctan2(along[:, 1], along[:, 0]) / (np.pi / 2)).astype(int) % 4
    np.add.at(votes, quarter, np.hypot(along[:, 0], along[:, 1]))
    return int(votes.argmax())


def reading_order(corners: Array) -> list[list[int]]:
    """The numbers of lines in the order in which they are read, those side by side in one list.

    corners (n, 4, 2): as in `turn_of`.

    Most lines' direction is that of the page, which may be turned and skewed. Columns of running
    text are read one after the other, the left one first; other lines row by row.
    """
    if not len(corners):
        return []
    along = corners[:, 1] - corners[:, 0]
    angles = np.arctan2(along[:, 1], along[:, 0]) - turn_of(corners) * (np.pi / 2)
    angles = (angles + np.pi) % (2 * np.pi) - np.pi
    lengths = np.hypot(along[:, 0], along[:, 1])
    straight = np.abs(angles) < np.pi / 4
    order = np.argsort(angles[straight])
    middle = np.searchsorted(np.cumsum(lengths[straight][order]), lengths[straight].sum() / 2)
    angle = angles[straight][order][min(int(middle), len(order) - 1)]
    angle += turn_of(corners) * (np.pi / 2)
    turned = corners @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    boxes = np.concatenate([turned.min(1), turned.max(1)], 1)
    # Boxes grow when they are turned, so that lines would overlap: their heights are those of the
    # lines, about their middles.
    heights = np.linalg.norm(corners[:, 3] - corners[:, 0], axis=1)
    middles = boxes[:, 1::2].mean(1)
    flat = straight & (heights < boxes[:, 3] - boxes[:, 1])
    boxes[flat, 1], boxes[flat, 3] = (middles - heights / 2)[flat], (middles + heights / 2)[flat]
    return _ordered(boxes, np.arange(len(boxes)))


def _ordered(boxes: Array, numbers: Array) -> list[list[int]]:
    """The numbers of boxes (left, top, right, bottom) of an upright page in rows."""
    bands = _bands(boxes, numbers)
    found: list[list[int]] = []
    start = 0
    while start < len(bands):
        inside, best = np.empty(0, int), None
        for end in range(start, len(bands)):
            inside = np.concatenate([inside, bands[end]])
            gutters = _gutters(boxes[inside])
            if not gutters:
                break
            for x in gutters:
                left = boxes[inside, 0] < x
                if _is_text(boxes[inside[left]]) and _is_text(boxes[inside[~left]]):
                    best = end + 1, inside[left], inside[~left]
        if best is None:
            found += _rows(boxes, bands[start])
            start += 1
        else:
            start = best[0]
            for column in best[1:]:
                found += _ordered(boxes, column)
    return found


def _bands(boxes: Array, numbers: Array) -> list[Array]:
    """The boxes in bands that do not overlap, from the top down; a little overlap is none."""
    heights = boxes[numbers, 3] - boxes[numbers, 1]
    tops, bottoms = boxes[numbers, 1] + heights * 0.2, boxes[numbers, 3] - heights * 0.2
    order = np.argsort(tops, kind="stable")
    reach = np.maximum.accumulate(bottoms[order])
    breaks = np.nonzero(tops[order][1:] > reach[:-1])[0] + 1
    return np.split(numbers[order], breaks)


def _gutters(boxes: Array) -> list[float]:
    """The middles of what is empty from top to bottom between boxes."""
    order = np.argsort(boxes[:, 0])
    reach = np.maximum.accumulate(boxes[order, 2])
    least = _GUTTER * float(np.median(boxes[:, 3] - boxes[:, 1]))
    gaps = np.nonzero(boxes[order, 0][1:] - reach[:-1] > least)[0]
    return [float(boxes[order, 0][i + 1] + reach[i]) / 2 for i in gaps]


def _is_text(boxes: Array) -> bool:
    """Whether boxes are lines of running text."""
    if len(boxes) < _LINES:
        return False
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    column = boxes[:, 2].max() - boxes[:, 0].min()
    full = (widths > _WIDE * heights) & (widths > _FULL * column)
    return bool(full.mean() >= 0.5)


def _rows(boxes: Array, numbers: Array) -> list[list[int]]:
    """The boxes of a band in rows, each from left to right."""
    middles = boxes[:, 1::2].mean(1)
    rows: list[list[int]] = []
    for number in numbers[np.argsort(middles[numbers], kind="stable")]:
        last = rows[-1] if rows else []
        height = boxes[number, 3] - boxes[number, 1]
        if last and middles[number] - np.mean(middles[last]) < 0.5 * height:
            last.append(int(number))
        else:
            rows.append([int(number)])
    return [sorted(row, key=lambda n: float(boxes[n, 0])) for row in rows]
