"""Samples of the ops of core/ops/matmul.py."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core.tools.testing import draws

from .base import INF, NAN, Array, Sample, Samples, total

SAMPLES: dict[str, Samples] = {}


def _loop_matmul(a: Array, b: Array) -> Array:
    out = np.zeros((*a.shape[:-1], b.shape[-1]))
    for at in np.ndindex(out.shape):
        row, column = a[(*at[:-2], at[-2])], b[(*at[:-2], slice(None), at[-1])]
        out[at] = total([p * q for p, q in zip(row.tolist(), column.tolist(), strict=True)])
    return out if a.dtype.kind == "f" else out.astype(a.dtype)


NO_ROW = {"0-d": "a product needs rows"}
NANS = np.array([[1.0, NAN, 2.0], [INF, 1.0, 0.5]])
SAMPLES["matmul"] = Samples(
    _loop_matmul,
    "product",
    (
        Sample("odd", (draws(1, (5, 7)), draws(2, (7, 3)))),
        Sample("batch", (draws(1, (2, 3, 5)), draws(2, (2, 5, 7)))),
        Sample("empty", (np.zeros((0, 7)), draws(2, (7, 3)))),
        Sample("of none", (np.zeros((2, 0)), np.zeros((0, 3)))),
        Sample("nan", (NANS, draws(2, (3, 2)))),
        Sample("int", (np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4))),
        Sample("gradient", (draws(1, (2, 3)), draws(2, (3, 2))), grad=(0, 1)),
    ),
    without=NO_ROW,
)


def loop_linear(x: Array, w: Array, b: Array | None) -> Array:
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = _loop_matmul(rows, w.T).reshape(*x.shape[:-1], w.shape[0])
    return out if b is None else out + b


SAMPLES["linear"] = Samples(
    loop_linear,
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 7)), draws(2, (4, 7)), draws(3, (4,)))),
        Sample("one row", (draws(1, (7,)), draws(2, (4, 7)), None)),
        Sample("empty", (np.zeros((0, 7)), draws(2, (4, 7)), draws(3, (4,)))),
        Sample("nan", (NANS, draws(2, (2, 3)), None)),
        Sample("gradient", (draws(1, (2, 3)), draws(2, (2, 3)), draws(3, (2,))), grad=(0, 1, 2)),
        Sample(
            "gradient of a row", (draws(1, (3,)), draws(2, (2, 3)), draws(3, (2,))), grad=(0, 1, 2)
        ),
    ),
    without=NO_ROW,
)
SAMPLES["linear_t"] = Samples(
    lambda g, w: loop_linear(g, w.T, None),
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 4)), draws(2, (4, 7)))),
        Sample("empty", (np.zeros((0, 4)), draws(2, (4, 7)))),
        Sample("nan", (NANS, draws(2, (3, 2)))),
        Sample("gradient", (draws(1, (2, 3)), draws(2, (3, 2))), grad=(0, 1)),
    ),
    without=NO_ROW,
)
