"""What a page shows of a tensor: its numbers summed up, a histogram and a heat map.

A tensor of more than `MOST` elements is sampled: rows at even distances, in a few pieces, so that
few ranges are read of a file on a server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import float64
from rushlight.core.io.weights.load_schedule import load_schedule, run_schedule
from rushlight.core.io.weights.source import BytesSource
from rushlight.core.io.weights.table import Entry, Table

MOST = 1 << 21  # elements that are read and decoded of one tensor
_PIECES = 16
_BINS = 64
_MAP = (64, 96)  # the most rows and columns of a heat map
_FIRST = 12  # values that are shown as numbers

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a tensor as a matrix: `pieces` of (first row, rows), the first `columns` of each.

    rows, width: the shape of the whole matrix, whose columns are the tensor's last dim.
    """

    entry: Entry
    rows: int
    width: int
    columns: int
    pieces: tuple[tuple[int, int], ...]

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.columns == self.width and sum(n for _, n in self.pieces) == self.rows

    def ranges(self) -> list[tuple[int, int]]:
        """The (offset, length) of each piece in the file."""
        dtype = self.entry.dtype
        stride = dtype.nbytes(self.width)
        taken = dtype.nbytes(self.columns)
        return [
            (self.entry.offset + first * stride, n * stride if taken == stride else taken)
            for first, n in self.pieces
        ]


def sample(entry: Entry) -> Sample:
    """The rows of a tensor to read: all of a small one, at most `MOST` elements of a large one."""
    width = entry.shape[-1] if entry.shape else 1
    rows = math.prod(entry.shape[:-1]) if entry.shape else 1
    if width % entry.dtype.block:  # rows do not begin at bytes
        rows, width = 1, rows * width
    if not rows * width:
        return Sample(entry, rows, width, width, ())
    if rows * width <= MOST:
        return Sample(entry, rows, width, width, ((0, rows),))
    if width > MOST:  # a part of the first row
        return Sample(entry, rows, width, MOST // entry.dtype.block * entry.dtype.block, ((0, 1),))
    count = min(_PIECES, MOST // width)
    each = MOST // width // count
    starts = [i * (rows - each) // max(count - 1, 1) for i in range(count)]
    return Sample(entry, rows, width, width, tuple((first, each) for first in starts))


def values(chosen: Sample, data: bytes) -> Array:
    """The sampled rows as a float matrix, float64 for dtypes that float32 does not hold; of complex
    numbers the magnitudes.

    data: the bytes of the ranges, one after the other. Raises FormatError if some are missing.
    """
    taken = sum(n for _, n in chosen.pieces)
    shape = (taken, chosen.columns)
    nbytes = chosen.entry.dtype.nbytes(taken * chosen.columns)
    entry = replace(chosen.entry, shape=shape, offset=0, nbytes=nbytes)
    source = BytesSource(data, chosen.entry.name)
    [(_, t)] = run_schedule(load_schedule([Table({entry.name: entry})], ["heap"]), [source])
    if t.dtype.kind == "q":
        return t.dequantize().numpy()
    if t.dtype.is_complex:
        t = t.abs()
    wide = t.dtype.itemsize == 8 or (t.dtype.kind != "f" and t.dtype.itemsize == 4)
    return t.to(float64).numpy() if wide else t.float().numpy()


def figures(chosen: Sample, data: bytes) -> dict[str, Any]:
    """The figures of a tensor from the bytes of its sample's ranges.

    Mean, std and the histogram are those of its finite values; `std` is the population's. A cell
    of the heat map has the largest magnitude and the mean of its finite values, NaN if it has none.
    """
    x = values(chosen, data)
    finite = np.isfinite(x)
    good = x[finite]
    measures: dict[str, Any] = {
        "count": x.size,
        "whole": chosen.whole,
        "rows": chosen.rows,
        "columns": chosen.width,
        "sampledRows": len(x),
        "sampledColumns": chosen.columns,
        "nan": int(np.isnan(x).sum()),
        "infinite": int(np.isinf(x).sum()),
        "zeros": int((x == 0).sum()),
        "first": [float(v) for v in x.reshape(-1)[:_FIRST]],
    }
    if good.size:
        with np.errstate(over="ignore"):  # of float64, to infinity
            mean = float(good.mean(dtype=np.float64))
            spread = np.subtract(good, mean, dtype=np.float64)
            measures |= {"mean": mean, "std": math.sqrt(float((spread * spread).mean()))}
        measures |= {
            "min": float(good.min()),
            "max": float(good.max()),
        }
        measures["histogram"] = histogram(good, measures["min"], measures["max"])
    if x.size:
        numbers = [r for first, n in chosen.pieces for r in range(first, first + n)]
        measures["map"] = heat_map(x, finite, numbers)
    return measures


def histogram(x: Array, low: float, high: float) -> dict[str, Any]:
    """Counts of equal bins from the lowest to the highest value, and the bins' edges.

    `x` are the finite values, from `low` to `high`. It raises nothing.
    """
    scale = 1.0
    if not math.isfinite(high - low):
        scale = max(-low, high)
        x = x / scale
    try:
        counts, edges = np.histogram(x, _BINS if high > low else 1)
    except ValueError:  # the bins would be narrower than the distance of two floats
        counts, edges = np.array([x.size]), np.array([low, high]) / scale
    return {"counts": counts.tolist(), "edges": (edges * scale).tolist()}


def heat_map(x: Array, finite: Array, numbers: Sequence[int]) -> dict[str, Any]:
    """A matrix reduced to few cells: the largest magnitude and the mean of each.

    numbers: the row numbers in the tensor. `rowEdges` and `columnEdges` are the first and the last
    row and column of each cell.

    `x` is the matrix, `finite` where it is a number. It raises nothing of its own.
    """
    rows, columns = _cuts(x.shape[0], _MAP[0]), _cuts(x.shape[1], _MAP[1])

    def reduced(fn: np.ufunc, values: Array) -> Array:
        return fn.reduceat(fn.reduceat(values, columns[:-1], axis=1), rows[:-1], axis=0)

    zeroed = np.where(finite, x, 0)
    counts = reduced(np.add, finite.astype(np.int64))
    none = counts == 0
    with np.errstate(over="ignore", invalid="ignore"):
        means = reduced(np.add, zeroed.astype(np.float64)) / np.maximum(counts, 1)
    largest = reduced(np.maximum, np.abs(zeroed)).astype(np.float64)
    means[none] = largest[none] = np.nan
    return {
        "largest": largest.reshape(-1).tolist(),
        "mean": means.reshape(-1).tolist(),
        "rowEdges": [[numbers[a], numbers[b - 1]] for a, b in zip(rows, rows[1:], strict=False)],
        "columnEdges": [[a, b - 1] for a, b in zip(columns, columns[1:], strict=False)],
    }


def _cuts(length: int, most: int) -> list[int]:
    """The borders of at most `most` parts of nearly equal length."""
    parts = min(length, most)
    return [i * length // parts for i in range(parts + 1)]
