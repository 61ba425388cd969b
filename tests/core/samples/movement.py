"""Samples of the ops of core/ops/movement.py."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .base import Array, Samples, movement

SAMPLES: dict[str, Samples] = {}


def _loop_slice_backward(g: Array, *, shape: Any, ranges: Any) -> Array:
    out = np.zeros(shape, g.dtype)
    places = itertools.product(*(range(*r) for r in ranges))
    for at, v in zip(places, g.reshape(-1), strict=True):
        out[at] = v
    return out


def _loop_unfold(x: Array, *, dim: int, size: int, step: int, dilation: int) -> Array:
    count = (x.shape[dim] - (size - 1) * dilation - 1) // step + 1
    windows = [
        np.stack([np.take(x, i * step + k * dilation, dim) for k in range(size)], -1)
        for i in range(count)
    ]
    return np.stack(windows, dim)


def _loop_unfold_backward(
    g: Array, *, length: int, dim: int, size: int, step: int, dilation: int
) -> Array:
    out = np.zeros((length, *np.moveaxis(g[..., 0], dim, 0).shape[1:]))
    for i in range(g.shape[dim]):
        for k in range(size):
            out[i * step + k * dilation] += np.take(g[..., k], i, dim)
    return np.moveaxis(out, 0, dim)


def _loop_pad(x: Array, *, pads: Any, value: float) -> Array:
    out = np.full([n + a + b for n, (a, b) in zip(x.shape, pads, strict=True)], value, x.dtype)
    for at in np.ndindex(x.shape):
        out[tuple(i + a for i, (a, _) in zip(at, pads, strict=True))] = x[at]
    return out


SAMPLES["permute"] = movement(
    lambda x, dims: np.array(
        [
            x[tuple(at[dims.index(d)] for d in range(len(dims)))]
            for at in np.ndindex(*(x.shape[d] for d in dims))
        ],
        x.dtype,
    ).reshape([x.shape[d] for d in dims]),
    ((2, 3, 5), {"dims": (2, 0, 1)}),
    ((0, 3), {"dims": (1, 0)}),
    ((), {"dims": ()}),
)
SAMPLES["expand"] = movement(
    lambda x, shape: x + np.zeros(shape, x.dtype),
    ((3, 1), {"shape": (2, 3, 5)}),
    ((1, 0), {"shape": (4, 0)}),
    ((), {"shape": (3,)}),
)
SAMPLES["view"] = movement(
    lambda x, shape: np.array(x.reshape(-1).tolist(), x.dtype).reshape(shape),
    ((3, 5, 2), {"shape": (15, 2, 1)}),
    ((0, 3), {"shape": (6, 0)}),
    ((), {"shape": (1, 1)}),
    layouts=("plain",),
)
SAMPLES["slice"] = movement(
    lambda x, ranges: x[np.ix_(*(list(range(*r)) for r in ranges))],
    ((5, 7), {"ranges": ((1, 5, 2), (0, 7, 3))}),
    ((0, 3), {"ranges": ((0, 0, 1), (1, 3, 1))}),
    ((5, 3), {"ranges": ((2, 2, 1), (0, 3, 1))}),
    without={"0-d": "there is no dim to slice"},
)
SAMPLES["index"] = movement(
    lambda x, key: x[tuple(slice(*k) if isinstance(k, tuple) else k for k in key)],
    ((5, 7), {"key": (3, (0, 7, 3))}),
    ((4, 5, 3), {"key": ((1, 4, 2), 0, (0, 3, 1))}),
    ((0, 3), {"key": ((0, 0, 1), 2)}),
    ((2, 3), {"key": (1, 2)}),
    ((5, 3), {"key": ((2, 2, 1), 1)}),
    without={"0-d": "there is no dim to index"},
)
SAMPLES["slice_backward"] = movement(
    _loop_slice_backward,
    ((2, 3), {"shape": (5, 7), "ranges": ((1, 5, 2), (0, 7, 3))}),
    ((0, 2), {"shape": (0, 3), "ranges": ((0, 0, 1), (1, 3, 1))}),
    without={"0-d": "there is no dim to slice"},
)
_UNFOLD = {"dim": 0, "size": 3, "step": 2, "dilation": 2}
SAMPLES["unfold"] = movement(
    _loop_unfold,
    ((9, 2), _UNFOLD),
    ((9, 0), _UNFOLD),
    ((7,), {"dim": 0, "size": 2, "step": 1, "dilation": 1}),
    without={"0-d": "there is no dim to unfold"},
)

SAMPLES["unfold_backward"] = movement(
    _loop_unfold_backward,
    ((3, 2, 3), {"length": 9, **_UNFOLD}),
    ((3, 0, 3), {"length": 9, **_UNFOLD}),
    ((6, 2), {"length": 7, "dim": 0, "size": 2, "step": 1, "dilation": 1}),
    family="sum",
    without={"0-d": "there is no dim to unfold"},
)
SAMPLES["flip"] = movement(
    lambda x, dims: np.array(
        [
            x[
                tuple(
                    n - 1 - i if d in dims else i
                    for d, (i, n) in enumerate(zip(at, x.shape, strict=True))
                )
            ]
            for at in np.ndindex(x.shape)
        ],
        x.dtype,
    ).reshape(x.shape),
    ((3, 5, 2), {"dims": (0, 2)}),
    ((0, 3), {"dims": (0,)}),
    ((), {"dims": ()}),
)
SAMPLES["pad"] = movement(
    _loop_pad,
    ((3, 5), {"pads": ((1, 2), (0, 3)), "value": 2}),
    ((0, 3), {"pads": ((1, 0), (0, 0)), "value": 0}),
    ((), {"pads": (), "value": 1}),
)
