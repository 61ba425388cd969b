"""Samples of the ops of core/ops/windows.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import INF, LAYOUTS, NAN, SPECIAL, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _loop_window_argmax(
    x: Array, *, kernel: Any, stride: Any, padding: Any, dilation: Any, count: Any
) -> Array:
    found = np.full((x.shape[0], *count), -1)
    for n, *at in np.ndindex(found.shape):
        best = None
        for tap in np.ndindex(*kernel):
            place = [at[i] * stride[i] + t * dilation[i] - padding[i] for i, t in enumerate(tap)]
            if any(not 0 <= p < size for p, size in zip(place, x.shape[1:], strict=True)):
                continue
            value = x[(n, *place)]
            if best is None or value > best or value != value:
                best = value
                found[(n, *at)] = np.ravel_multi_index(place, x.shape[1:])
    return found


def _windows(kernel: Any, stride: Any, padding: Any, count: Any, apart: Any = (1, 1, 1)) -> Any:
    return dict(kernel=kernel, stride=stride, padding=padding, dilation=apart, count=count)


_PLANE = _windows((1, 3, 3), (1, 2, 2), (0, 1, 1), (1, 4, 5))
_SPECIAL_PLANE = np.resize(SPECIAL, (2, 1, 7, 9))
SAMPLES["window_argmax"] = Samples(_loop_window_argmax, "exact", (
    Sample("odd", (draws(1, (2, 1, 7, 9)),), _PLANE),
    Sample("wide", (draws(2, (2, 1, 5, 43)),),
           _windows((1, 2, 3), (1, 1, 3), (0, 0, 1), (1, 4, 14))),
    Sample("dilated", (draws(3, (1, 4, 5, 40)),),
           _windows((2, 2, 3), (2, 1, 2), (1, 1, 1), (2, 5, 18), (2, 2, 3))),
    Sample("whole", (draws(4, (3, 2, 4, 9)),),
           _windows((2, 4, 9), (2, 4, 9), (0, 0, 0), (1, 1, 1))),
    Sample("padding alone", (draws(5, (1, 1, 2, 2)),),
           _windows((1, 2, 2), (1, 1, 1), (0, 1, 1), (1, 1, 1), (1, 3, 3))),
    Sample("empty", (np.zeros((0, 1, 7, 9)),), _PLANE),
    Sample("nan", (_SPECIAL_PLANE,), _PLANE),
    Sample("equal", (np.zeros((1, 1, 6, 40)),),
           _windows((1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 3, 20))),
    Sample("int", (np.arange(126)[::-1].reshape(2, 1, 7, 9) - 60,), _PLANE),
), without={"0-d": "windows lie in three dims"})  # fmt: skip


def _loop_window_max(x: Array, **windows: Any) -> Array:
    at = _loop_window_argmax(x, **windows)
    found = [one.reshape(-1)[places] for one, places in zip(x, at, strict=True)]
    return np.stack(found) if found else np.zeros(at.shape)


SAMPLES["window_max"] = Samples(
    _loop_window_max,
    "exact",
    tuple(
        replace(s, grad=(0,) if s.label == "odd" else ())
        for s in SAMPLES["window_argmax"].samples
        if s.label != "padding alone"
    ),
    without={"0-d": "windows lie in three dims"},
)


def _loop_resample(x: Array, at: Array, weight: Array, *_: Array, dim: int) -> Array:
    moved = np.moveaxis(x, dim, 0)
    out = np.zeros((len(at), *moved.shape[1:]))
    for j, t in np.ndindex(at.shape):
        if at[j, t] >= 0:
            out[j] += weight.view(np.float32)[j, t] * moved[at[j, t]]
    return np.moveaxis(out, 0, dim)


_AT = np.array([[0, 1, -1], [2, -1, 0], [4, 4, 3], [-1, -1, -1]])
_TAPS = np.array([[0.5, 0.25, 9.0], [1.0, 9.0, -2.0], [0.125, 3.0, 1.5], [9.0, 9.0, 9.0]])
# The same table from the five old elements.
_BACK = np.array([[0, 1], [0, -1], [1, -1], [2, -1], [2, 2]])
_BACK_TAPS = np.array([[0.5, -2.0], [0.25, 9.0], [1.0, 9.0], [1.5, 9.0], [0.125, 3.0]])


def _bits(weights: Array) -> Array:
    return weights.astype(np.float32).view(np.int32)


_TABLES = (_AT, _bits(_TAPS), _BACK, _bits(_BACK_TAPS))
_ONE = (np.array([[4], [0], [4]]), _bits(np.ones((3, 1))), _BACK[:, :1], _bits(np.ones((5, 1))))
SAMPLES["resample"] = Samples(
    _loop_resample,
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 7)), *_TABLES), {"dim": 1}),
        Sample("last dim", (draws(2, (19, 5)), *_TABLES), {"dim": 1}),
        Sample("first dim", (draws(3, (5, 3)), *_TABLES), {"dim": 0}),
        Sample("wide", (draws(4, (1, 5, 70)), *_TABLES), {"dim": 1}),
        Sample("copies", (draws(5, (2, 5, 3)), *_ONE), {"dim": 1}),
        Sample("copies of the last dim", (draws(5, (9, 5)), *_ONE), {"dim": 1}),
        Sample(
            "no terms", (draws(5, (2, 5)), _AT[:, :0], _TABLES[1][:, :0], *_TABLES[2:]), {"dim": 1}
        ),
        Sample("empty", (np.zeros((0, 5, 2)), *_TABLES), {"dim": 1}),
        Sample("nan", (np.array([[NAN, 1.0, INF, -INF, 0.0]]), *_TABLES), {"dim": 1}),
        Sample("gradient", (draws(6, (2, 5, 3)), *_TABLES), {"dim": 1}, grad=(0,)),
    ),
    layouts=LAYOUTS[:3],
    without={"0-d": "there is no dim to resample"},
)
