"""Samples of the ops of core/ops/subscript.py."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import SPECIAL, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}

_X, _SRC = draws(1, (5, 3)), draws(2, (2, 3))
_NAN5 = np.resize(SPECIAL, (5, 3))


def _loop_assign(x: Array, value: Array, *, ranges: Any, shape: Any) -> Array:
    out = x.copy()
    places = itertools.product(*(range(*r) for r in ranges))
    for at, v in zip(places, value.reshape(-1), strict=True):
        out[at] = v
    return out


_PART = {"ranges": ((1, 5, 2), (0, 3, 2)), "shape": (2, 1, 2)}
SAMPLES["assign"] = Samples(
    _loop_assign,
    "exact",
    (
        Sample("odd", (_X, draws(3, (2, 1, 2))), _PART),
        Sample(
            "empty", (_X, np.zeros((0, 3))), {"ranges": ((2, 2, 1), (0, 3, 1)), "shape": (0, 3)}
        ),
        Sample("0-d", (np.array(1.0), np.array(2.0)), {"ranges": (), "shape": ()}),
        Sample("nan", (_NAN5, draws(3, (2, 1, 2))), _PART),
        Sample("int", (np.arange(15).reshape(5, 3), np.arange(4).reshape(2, 1, 2)), _PART),
        Sample("gradient", (_X, draws(3, (2, 1, 2))), _PART, grad=(0, 1)),
    ),
)


def _loop_put(x: Array, index: Array, value: Array) -> Array:
    flat = x.reshape(-1).copy()
    for i, v in zip(index.reshape(-1).tolist(), value.reshape(-1), strict=True):
        flat[i] = v
    return flat.reshape(x.shape)


_FLAT = np.array([[14, 0, 3], [7, 5, 1]])
SAMPLES["put"] = Samples(
    _loop_put,
    "exact",
    (
        Sample("odd", (_X, _FLAT, _SRC)),
        Sample("empty", (_X, np.zeros((0, 2), np.int64), np.zeros((0, 2)))),
        Sample("of empty", (np.zeros((0, 3)), np.zeros(0, np.int64), np.zeros(0))),
        Sample("0-d", (np.array(1.0), np.array(0), np.array(2.0))),
        Sample("nan", (_NAN5, _FLAT, _SRC)),
        Sample("int", (np.arange(15).reshape(5, 3), _FLAT, np.arange(6).reshape(2, 3))),
        Sample("gradient", (_X, _FLAT, _SRC), grad=(0, 2)),
    ),
)
