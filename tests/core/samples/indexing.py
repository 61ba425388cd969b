"""Samples of the ops of core/ops/indexing.py."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core.tools.testing import draws

from .base import SPECIAL, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _loop_gather(x: Array, index: Array, *, dim: int) -> Array:
    out = np.empty(index.shape, x.dtype)
    for at in np.ndindex(index.shape):
        out[at] = x[(*at[:dim], index[at], *at[dim + 1 :])]
    return out


def _loop_scatter(x: Array, index: Array, src: Array, *, dim: int) -> Array:
    out = x.copy()
    for at in np.ndindex(index.shape):
        out[(*at[:dim], index[at], *at[dim + 1 :])] = src[at]
    return out


def _loop_scatter_add(x: Array, index: Array, src: Array, *, dim: int) -> Array:
    out = x.copy()
    for at in np.ndindex(index.shape):
        out[(*at[:dim], index[at], *at[dim + 1 :])] += src[at]
    return out


_GATHER = np.array([[0, 2, 1], [4, 4, 0]])
_X, _SRC = draws(1, (5, 3)), draws(2, (2, 3))
_UNIQUE = np.array([[0, 2, 1], [4, 3, 0]])
_NAN5 = np.resize(SPECIAL, (5, 3))
_PICKS = {"0-d": "indices need a dim; the functions make it one"}
SAMPLES["gather"] = Samples(
    _loop_gather,
    "exact",
    (
        Sample("odd", (_X, _GATHER), {"dim": 0}),
        Sample("last dim", (_X, np.array([[2, 0], [1, 1]], np.int32)), {"dim": 1}),
        Sample("empty", (_X, np.zeros((0, 3), np.int64)), {"dim": 0}),
        Sample("nan", (_NAN5, _GATHER), {"dim": 0}),
        Sample("int", (np.arange(15).reshape(5, 3), _GATHER), {"dim": 0}),
        Sample("gradient", (_X, _GATHER), {"dim": 0}, grad=(0,)),
    ),
    without=_PICKS,
)
SAMPLES["scatter"] = Samples(
    _loop_scatter,
    "exact",
    (
        Sample("odd", (_X, _UNIQUE, _SRC), {"dim": 0}),
        Sample("last dim", (_X, np.array([[2, 0], [1, 0]]), _SRC[:, :2]), {"dim": 1}),
        Sample("empty", (_X, np.zeros((0, 3), np.int64), _SRC[:0]), {"dim": 0}),
        Sample("nan", (_NAN5, _UNIQUE, _SRC), {"dim": 0}),
        Sample(
            "int", (np.arange(15).reshape(5, 3), _UNIQUE, np.arange(6).reshape(2, 3)), {"dim": 0}
        ),
        Sample("gradient", (_X, _UNIQUE, _SRC), {"dim": 0}, grad=(0, 2)),
    ),
    without=_PICKS,
)
SAMPLES["scatter_add"] = Samples(
    _loop_scatter_add,
    "sum",
    (
        Sample("odd", (_X, np.zeros((2, 3), np.int64), _SRC), {"dim": 0}),
        Sample("last dim", (_X, np.array([[2, 2], [1, 0]]), _SRC[:, :2]), {"dim": 1}),
        Sample("empty", (_X, np.zeros((0, 3), np.int64), _SRC[:0]), {"dim": 0}),
        Sample("nan", (_NAN5, _GATHER, _SRC), {"dim": 0}),
        Sample(
            "int", (np.arange(15).reshape(5, 3), _GATHER, np.arange(6).reshape(2, 3)), {"dim": 0}
        ),
        Sample("gradient", (_X, _GATHER, _SRC), {"dim": 0}, grad=(0, 2)),
    ),
    without=_PICKS,
)
_ROWS = np.array([3, 0, 3, 4])


def _loop_index_add(x: Array, index: Array, source: Array, *, dim: int) -> Array:
    out = np.moveaxis(x.copy(), dim, 0)
    for i, part in zip(index.tolist(), np.moveaxis(source, dim, 0), strict=True):
        out[i] += part
    return np.moveaxis(out, 0, dim)


def _loop_select(x: Array, index: Array, *, dim: int) -> Array:
    moved = np.moveaxis(x, dim, 0)
    out = np.array([moved[i] for i in index.tolist()], x.dtype)
    return np.moveaxis(out.reshape(len(index), *moved.shape[1:]), 0, dim)


SAMPLES["index_select"] = Samples(
    _loop_select,
    "exact",
    (
        Sample("odd", (_X, _ROWS), {"dim": 0}),
        Sample("last dim", (_X, np.array([1, 1], np.uint8)), {"dim": 1}),
        Sample("empty", (_X, np.zeros(0, np.int64)), {"dim": 0}),
        Sample("nan", (_NAN5, _ROWS), {"dim": 0}),
        Sample("int", (np.arange(15).reshape(5, 3), _ROWS), {"dim": 0}),
        Sample("gradient", (_X, _ROWS), {"dim": 0}, grad=(0,)),
    ),
    without=_PICKS,
)
SAMPLES["index_add"] = Samples(
    _loop_index_add,
    "sum",
    (
        Sample("odd", (_X, _ROWS, draws(3, (4, 3))), {"dim": 0}),
        Sample("last dim", (_X, np.array([1, 1]), draws(3, (5, 2))), {"dim": 1}),
        Sample("empty", (_X, np.zeros(0, np.int64), np.zeros((0, 3))), {"dim": 0}),
        Sample("nan", (_NAN5, _ROWS, draws(3, (4, 3))), {"dim": 0}),
        Sample(
            "int", (np.arange(15).reshape(5, 3), _ROWS, np.arange(12).reshape(4, 3)), {"dim": 0}
        ),
        Sample("gradient", (_X, _ROWS, draws(3, (4, 3))), {"dim": 0}, grad=(0, 2)),
    ),
    without=_PICKS,
)
SAMPLES["embedding"] = Samples(
    lambda w, i: np.array([w[k] for k in i.reshape(-1)], w.dtype).reshape(*i.shape, w.shape[1]),
    "exact",
    (
        Sample("odd", (_X, np.array([[0, 4, 1], [1, 1, 3]]))),
        Sample("empty", (_X, np.zeros((2, 0), np.int64))),
        Sample("0-d", (_X, np.array(2))),
        Sample("nan", (_NAN5, _ROWS)),
        Sample("gradient", (_X, _ROWS), grad=(0,)),
    ),
)
SAMPLES["ravel_index"] = Samples(
    lambda *index, sizes: np.array(
        [
            np.dot(
                [i % n for i, n in zip(v, sizes, strict=True)],
                [math.prod(sizes[d + 1 :]) for d in range(len(sizes))],
            )
            for v in zip(*(i.reshape(-1).tolist() for i in index), strict=True)
        ],
        np.int64,
    ).reshape(index[0].shape),
    "exact",
    (
        Sample(
            "odd", (np.array([[0, 2], [-1, 1]]), np.array([[4, -5], [0, 3]])), {"sizes": (3, 5)}
        ),
        Sample("empty", (np.zeros((0, 2), np.int64),), {"sizes": (3,)}),
        Sample("0-d", (np.array(-2),), {"sizes": (3,)}),
    ),
    without={"nan": "integers only"},
)
