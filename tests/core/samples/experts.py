"""Samples of the ops of core/ops/experts.py."""

from __future__ import annotations

import numpy as np

from rushlight.core.tools.testing import draws

from .base import Array, Sample, Samples
from .matmul import NANS, NO_ROW, loop_linear

SAMPLES: dict[str, Samples] = {}


def _loop_experts(x: Array, w: Array, index: Array, b: Array | None) -> Array:
    out = np.zeros((*x.shape[:-1], w.shape[1]))
    for at in np.ndindex(*index.shape):
        e = int(index[at])
        out[at] = loop_linear(x[at][None], w[e], None if b is None else b[e])[0]
    return out


_NAMED = np.array([[2, 0, 1, 0, 2], [1, 1, 1, 2, 0], [0, 2, 2, 1, 1]])
SAMPLES["linear_experts"] = Samples(
    _loop_experts,
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 7)), draws(2, (3, 4, 7)), _NAMED, draws(3, (3, 4)))),
        Sample("one row", (draws(1, (7,)), draws(2, (3, 4, 7)), np.array(2), None)),
        Sample(
            "empty",
            (np.zeros((0, 7)), draws(2, (3, 4, 7)), np.zeros(0, np.int64), draws(3, (3, 4))),
        ),
        Sample("nan", (NANS, draws(2, (3, 2, 3)), np.arange(len(NANS)) % 3, None)),
        Sample(
            "gradient",
            (draws(1, (2, 2, 3)), draws(2, (3, 2, 3)), _NAMED[:2, :2], draws(3, (3, 2))),
            grad=(0, 1, 3),
        ),
    ),
    without=NO_ROW,
)
SAMPLES["linear_experts_t"] = Samples(
    lambda g, w, i: _loop_experts(g, w.transpose(0, 2, 1), i, None),
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 4)), draws(2, (3, 4, 7)), _NAMED)),
        Sample("empty", (np.zeros((0, 4)), draws(2, (3, 4, 7)), np.zeros(0, np.int64))),
        Sample("nan", (NANS, draws(2, (3, 3, 2)), np.arange(len(NANS)) % 3)),
        Sample("gradient", (draws(1, (2, 2, 3)), draws(2, (3, 3, 2)), _NAMED[:2, :2]), grad=(0, 1)),
    ),
    without=NO_ROW,
)
