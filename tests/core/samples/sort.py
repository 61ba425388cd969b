"""Samples of the ops of core/ops/sort.py."""

from __future__ import annotations

import numpy as np

from rushlight.core.tools.testing import draws

from .base import BITS, INF, INTS, NAN, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _order(values: list[float], descending: bool) -> list[int]:
    """Indices in order, nan above everything, equal ones by index."""
    keys = [(1, 0.0) if v != v else (0, v) for v in values]
    if descending:
        return sorted(range(len(keys)), key=lambda i: (-keys[i][0], -keys[i][1]))
    return sorted(range(len(keys)), key=lambda i: keys[i])


def _sorted_rows(x: Array, dim: int, descending: bool, k: int | None = None) -> Array:
    rows = np.moveaxis(x, dim, -1)
    n = rows.shape[-1] if k is None else k
    out = [_order(r.tolist(), descending)[:n] for r in rows.reshape(-1, rows.shape[-1])]
    return np.moveaxis(np.array(out, np.int64).reshape(*rows.shape[:-1], n), -1, dim)


_TIED = np.array([[1.0, NAN, 2.0, 1.0, -INF, NAN, 2.0], [0.0, -0.0, 3.0, INF, 3.0, INF, 0.0]])
_SORTS = [
    ("odd", draws(1, (5, 7, 3)), 1),
    ("empty", np.zeros((0, 3)), 1),
    ("nan", _TIED, 1),
    ("int", np.arange(12).reshape(3, 4) % 5, 0),
    ("first dim", draws(2, (5, 3)), 0),
    ("uint8", INTS["uint8"], 0),
    ("bool", BITS, 0),
]
_NO_DIM = {"0-d": "there is no dim to sort along"}
SAMPLES["argsort"] = Samples(
    lambda x, *, dim, descending: _sorted_rows(x, dim, descending),
    "exact",
    tuple(
        Sample(n if not d else f"{n} down", (x,), {"dim": k, "descending": d})
        for n, x, k in _SORTS
        for d in (False, True)
    ),
    without=_NO_DIM,
)
SAMPLES["topk"] = Samples(
    lambda x, *, k, dim, largest: _sorted_rows(x, dim, largest, k),
    "exact",
    tuple(
        Sample(n if big else f"{n} smallest", (x,), {"k": k, "dim": d, "largest": big})
        for n, x, d in _SORTS
        for big, k in ((True, 2), (False, 3))
    ),
    without=_NO_DIM,
)
