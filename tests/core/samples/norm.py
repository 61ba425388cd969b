"""Samples of the ops of core/ops/norm.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight.core.tools.testing import draws

from .base import INF, NAN, Array, Sample, Samples, largest, total

SAMPLES: dict[str, Samples] = {}


def row_softmax(values: list[float]) -> list[float]:
    top = largest(values) if values else 0
    if not math.isfinite(top):
        return [NAN for _ in values]
    e = [math.exp(v - top) for v in values]
    return [v / math.fsum(e) for v in e]


def _rows_of(fn: Callable[[list[float]], list[float]]) -> Callable[..., Array]:
    def apply(x: Array, *, dim: int) -> Array:
        rows = np.moveaxis(x, dim, -1)
        flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
        out = np.array([fn(r.tolist()) for r in flat], np.float64)
        return np.moveaxis(out.reshape(rows.shape), -1, dim)

    return apply


def _row_log_softmax(values: list[float]) -> list[float]:
    if not values or not math.isfinite(top := largest(values)):
        return [NAN for _ in values]
    total = math.log(math.fsum(math.exp(v - top) for v in values))
    return [v - top - total for v in values]


_ROW_NANS = np.array([[1.0, NAN, 2.0], [INF, 1.0, 0.5], [-INF, 1.0, 2.0], [-INF] * 3, [1e30, 0, 1]])
for _name, _row in {"softmax": row_softmax, "log_softmax": _row_log_softmax}.items():
    SAMPLES[_name] = Samples(
        _rows_of(_row),
        "product",
        (
            Sample("odd", (draws(1, (5, 7, 3), -9, 9),), {"dim": 1}),
            Sample("empty", (np.zeros((0, 3)),), {"dim": 1}),
            Sample("of none", (np.zeros((3, 0)),), {"dim": 1}),
            Sample("nan", (_ROW_NANS if _name == "softmax" else _ROW_NANS[:4],), {"dim": 1}),
            Sample("gradient", (draws(2, (2, 3)),), {"dim": 1}, grad=(0,)),
        ),
        without={"0-d": "there is no dim to go along; the function makes it one"},
    )


def _norm(x: Array, w: Array | None, b: Array | None, eps: float, centre: bool) -> Array:
    out = np.empty(x.shape)
    for at in np.ndindex(x.shape[:-1]):
        row = x[at].tolist()
        mean = total(row) / len(row) if centre else 0.0
        var = total([(v - mean) ** 2 for v in row]) / len(row)
        out[at] = [(v - mean) / math.sqrt(var + eps) if var + eps > 0 else NAN for v in row]
    out = out if w is None else out * w
    return out if b is None else out + b


_NAN_ROWS = np.array([[1.0, NAN, 2.0], [1.0, 2.0, 4.0]])
_NORM_0D = {"0-d": "there is no dim to normalise"}
SAMPLES["layer_norm"] = Samples(
    lambda x, w, b, *, eps: _norm(x, w, b, eps, True),
    "product",
    (
        Sample("odd", (draws(1, (5, 3, 7)), draws(2, (7,)), draws(3, (7,))), {"eps": 1e-5}),
        Sample("plain", (draws(1, (5, 7)), None, None), {"eps": 1e-5}),
        Sample("empty", (np.zeros((0, 7)), draws(2, (7,)), None), {"eps": 1e-5}),
        Sample("nan", (_NAN_ROWS, None, None), {"eps": 1e-5}),
        Sample(
            "gradient",
            (draws(1, (2, 3), -3, 3), draws(2, (3,)), draws(3, (3,))),
            {"eps": 0.01},
            grad=(0, 1, 2),
        ),
        Sample("gradient of x", (draws(4, (2, 3), -3, 3), None, None), {"eps": 0.01}, grad=(0,)),
    ),
    without=_NORM_0D,
)
SAMPLES["rms_norm"] = Samples(
    lambda x, w, *, eps: _norm(x, w, None, eps, False),
    "product",
    (
        Sample("odd", (draws(1, (5, 3, 7)), draws(2, (7,))), {"eps": 1e-6}),
        Sample("plain", (draws(1, (5, 7)), None), {"eps": 1e-6}),
        Sample("empty", (np.zeros((0, 7)), draws(2, (7,))), {"eps": 1e-6}),
        Sample("nan", (_NAN_ROWS, None), {"eps": 1e-6}),
        Sample("gradient", (draws(1, (2, 3), -3, 3), draws(2, (3,))), {"eps": 0.01}, grad=(0, 1)),
        Sample("gradient of x", (draws(4, (2, 3), -3, 3), None), {"eps": 0.01}, grad=(0,)),
    ),
    without=_NORM_0D,
)
