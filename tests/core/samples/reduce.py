"""Samples of the ops of core/ops/reduce.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import BITS, INF, NAN, PAIRS, Array, Sample, Samples, largest, total

SAMPLES: dict[str, Samples] = {}


def _over(x: Array, dim: tuple[int, ...], keepdim: bool, fn: Callable[[list[Any]], Any]) -> Array:
    """`fn` of the list of elements along the dims, row-major, for every place of the others."""
    kept = [d for d in range(x.ndim) if d not in dim]
    out = {}
    for at in np.ndindex(*(x.shape[d] for d in kept)):
        key: list[Any] = [slice(None)] * x.ndim
        for d, i in zip(kept, at, strict=True):
            key[d] = i
        out[at] = fn(x[tuple(key)].reshape(-1).tolist())
    shape = [x.shape[d] for d in kept]
    flat = np.array([out[at] for at in np.ndindex(*shape)]).reshape(shape)
    return np.expand_dims(flat, dim) if keepdim else flat


def reduction(
    fn: Callable[[list[Any]], Any],
    family: str,
    *,
    grad: bool = True,
    empty: bool = True,
    truth: bool = False,
) -> Samples:
    """Samples of an op that makes one number, `fn`'s, of the elements along some dims."""

    def reference(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Array:
        out = _over(x, dim, keepdim, fn)
        if truth:
            return out.astype(np.bool_)
        return out if x.dtype.kind == "f" else out.astype(x.dtype)

    x = draws(1, (5, 7, 3))
    samples = [
        Sample("odd", (x,), {"dim": (1,), "keepdim": False}),
        Sample("several", (x,), {"dim": (0, 2), "keepdim": True}),
        Sample("every", (x,), {"dim": (0, 1, 2), "keepdim": False}),
        Sample("none", (x,), {"dim": (), "keepdim": False}),
        Sample("empty", (np.zeros((0, 3)),), {"dim": (1,), "keepdim": False}),
        Sample("0-d", (np.array(1.5),), {"dim": (), "keepdim": False}),
        Sample("nan", (PAIRS.T.copy(),), {"dim": (1,), "keepdim": False}),
        Sample("int", (np.arange(12).reshape(3, 4),), {"dim": (0,), "keepdim": False}),
    ]
    if empty:
        samples.append(Sample("of none", (np.zeros((3, 0)),), {"dim": (1,), "keepdim": False}))
    if grad:
        samples.append(
            Sample("gradient", (draws(5, (2, 3)),), {"dim": (1,), "keepdim": False}, grad=(0,))
        )
        samples.append(
            Sample("gradient kept", (draws(6, (2, 3)),), {"dim": (0,), "keepdim": True}, grad=(0,))
        )
    return Samples(reference, family, tuple(samples))


def _min(values: list[float]) -> float:
    return NAN if any(v != v for v in values) else min(values)


SAMPLES["sum"] = reduction(total, "sum")
SAMPLES["amax"] = reduction(largest, "exact", empty=False)
SAMPLES["amin"] = reduction(_min, "exact", empty=False)
SAMPLES["any"] = reduction(lambda v: any(a != 0 for a in v), "exact", grad=False, truth=True)
SAMPLES["all"] = reduction(lambda v: all(a != 0 for a in v), "exact", grad=False, truth=True)


def _first(values: list[float], best: Callable[[list[float]], float]) -> int:
    for i, v in enumerate(values):
        if v != v:
            return i
    return values.index(best(values))


def arg_reduction(best: Callable[[Any], float]) -> Samples:
    """Samples of an op that says where the best element lies, the first of equal ones."""
    ties = np.array([[2.0, 5.0, 5.0], [1.0, 1.0, -0.0], [0.0, -0.0, 0.0]])
    return Samples(
        lambda x, *, dim, keepdim: _over(x, (dim,), keepdim, lambda v: _first(v, best)),
        "exact",
        (
            Sample("odd", (draws(1, (5, 7, 3)),), {"dim": 1, "keepdim": False}),
            Sample("kept", (draws(2, (5, 7)),), {"dim": 0, "keepdim": True}),
            Sample("empty", (np.zeros((0, 3)),), {"dim": 1, "keepdim": False}),
            Sample("nan", (PAIRS.T.copy(),), {"dim": 1, "keepdim": False}),
            Sample("ties", (ties,), {"dim": 1, "keepdim": False}),
            Sample("int", (np.arange(12).reshape(3, 4) % 5,), {"dim": 0, "keepdim": False}),
            Sample("bool", (BITS,), {"dim": 0, "keepdim": False}),
        ),
        without={"0-d": "there is no dim to go along; ops.argmax makes it one"},
    )


SAMPLES["argmax"] = arg_reduction(max)
SAMPLES["argmin"] = arg_reduction(min)


def _loop_cumsum(x: Array, *, dim: int) -> Array:
    rows = np.moveaxis(x, dim, -1)
    out = np.array([list(itertools.accumulate(r.tolist())) for r in rows.reshape(-1, x.shape[dim])])
    return np.moveaxis(out.reshape(rows.shape), -1, dim)


SAMPLES["cumsum"] = Samples(
    _loop_cumsum,
    "sum",
    (
        Sample("odd", (draws(1, (5, 7, 3)),), {"dim": 1}),
        Sample("empty", (np.zeros((3, 0)),), {"dim": 0}),
        Sample("nan", (np.array([1, 2, INF, 3, NAN, 4.0]),), {"dim": 0}),
        Sample("int", (np.arange(12).reshape(3, 4),), {"dim": 0}),
        Sample("gradient", (draws(2, (2, 3)),), {"dim": 1}, grad=(0,)),
    ),
    without={"0-d": "there is no dim to go along"},
)
