"""Resampling by tables: of which elements, with which weights, each new element is the sum."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import float32, float64, uint8
from rushlight.core.ops.windows import RESAMPLE

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

# Places (out, terms), -1 for none, and the weights of the elements there.
Table = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
MOST_TERMS = 1 << 24  # of a table


def turned(table: Table, n: int) -> Table:
    """For each of the n old elements the new ones that it is part of, with its weight in them."""
    columns, weight = table
    new, term = np.nonzero(columns >= 0)
    old = columns[new, term]
    order = np.argsort(old, kind="stable")
    old, new, term = old[order], new[order], term[order]
    counts = np.bincount(old, minlength=n)
    number = np.arange(old.size) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.full((n, counts.max(initial=0)), -1)
    weights = np.zeros(places.shape)
    places[old, number], weights[old, number] = new, weight[new, term]
    return places, weights


def sparse(weights: npt.NDArray[np.float64]) -> Table:
    """The table of a matrix (out, n), without its zeros."""
    order = np.argsort(weights == 0, axis=1, kind="stable")
    order = order[:, : np.count_nonzero(weights, axis=1).max(initial=0)]
    weights_sorted = np.take_along_axis(weights, order, 1)
    return np.where(weights_sorted != 0, order, -1), weights_sorted


def _constant(values: npt.NDArray[Any], x: Tensor) -> Tensor:
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return type(x).from_buffer(raw, values.dtype.name, values.shape).to(x.device)


def _pixels(x: Tensor, todo: Sequence[tuple[int, Table]]) -> Tensor:
    """`resample` of uint8 as in torch and Pillow: weights are integers of 15 bits.

    Every dim, the last one first, is rounded to pixels.
    """
    out = x.to(float32)
    for d, (places, weight) in reversed(todo):
        weight = weight.copy()
        for j, k in itertools.combinations(range(min(places.shape[1], 4)), 2):
            same = places[:, j] == places[:, k]  # at a border one pixel stands for several
            weight[:, j] += weight[:, k] * same
            weight[:, k] *= ~same
        bits, most = 0, float(weight.max(initial=0))
        while bits < 22 and int(0.5 + most * 2 ** (bits + 1)) < 2**15:
            bits += 1
        fixed = np.trunc(weight * 2**bits + np.where(weight < 0, -0.5, 0.5)).astype("f4").view("i4")
        sums = RESAMPLE(
            out.contiguous(), _constant(places, x), _constant(fixed, x), None, None, dim=d
        )
        out = (sums * 0.5**bits + 0.5).floor().clamp(0, 255)
    return out.to(x.dtype)


def resample(x: Tensor, tables: Sequence[Table | None]) -> Tensor:
    """`x`, floating or uint8, with its last dims resampled by their tables; None leaves a dim.

    Halves are summed in float32.
    """
    wide = float64 if x.dtype is float64 else float32
    first = x.ndim - len(tables)
    todo = [(d, t) for d, t in enumerate(tables, first) if t is not None]
    if x.dtype is uint8:
        return _pixels(x, todo)
    # Few elements are left for the last dim, whose elements are gathered: dims that shrink go
    # first to last, then those that grow last to first.
    shrink = [(d, t) for d, t in todo if len(t[0]) <= x.shape[d]]
    grow = [(d, t) for d, t in todo if len(t[0]) > x.shape[d]]
    out = x.to(wide)
    for d, table in [*shrink, *reversed(grow)]:
        tensors: list[Tensor | None] = []
        for places, weight in (table, turned(table, x.shape[d])) if x.requires_grad else (table,):
            stored = weight.view("i8") if wide is float64 else weight.astype("f4").view("i4")
            tensors += [_constant(places, x), _constant(stored, x)]
        tensors += [None] * (4 - len(tensors))
        out = RESAMPLE(out.contiguous(), *tensors, dim=d)
    return out.to(x.dtype)
