"""Samples of the ops of core/ops/linalg.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import LAYOUTS, NAN, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _eliminated(a: Array, b: Array) -> Array:
    """a^-1 b by Gauss and Jordan, with pivots, in Python numbers."""
    if np.isnan(a).any():
        return np.full(b.shape, NAN)
    rows = np.concatenate([a, b], -1)
    for i in range(len(a)):
        at = i + int(np.argmax(np.abs(rows[i:, i])))
        rows[[i, at]] = rows[[at, i]]
        rows[i] /= rows[i, i]
        for j in range(len(a)):
            rows[j] -= 0 if j == i else rows[j, i] * rows[i]
    return rows[:, len(a) :]


def _stacked(fn: Callable[..., Array], *arrays: Array) -> Array:
    """fn of every matrix of a batch."""
    if arrays[0].ndim == 2:
        return np.asarray(fn(*arrays))
    return np.stack([_stacked(fn, *a) for a in zip(*arrays, strict=True)])


def _loop_triangular(a: Array, b: Array, *, upper: bool, unit: bool, full: bool) -> Array:
    a = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    return _stacked(_eliminated, a + unit * np.eye(a.shape[-1]), b)


def _loop_cholesky(a: Array, *, check: bool, upper: bool) -> Array:
    out = np.zeros_like(a)
    for i, j in itertools.product(range(a.shape[-1]), repeat=2):
        if j <= i:
            rest = a[..., i, j] - (out[..., i, :j] * out[..., j, :j]).sum(-1)
            out[..., i, j] = np.sqrt(rest) if i == j else rest / out[..., j, j]
    return out.swapaxes(-1, -2) if upper else out


def _loop_lu(a: Array, *, pivot: bool) -> Array:
    m, n = a.shape
    x, order, swaps = a.copy(), list(range(m)), list(range(m))
    for j in range(min(m, n)):
        at = max(range(j, m), key=lambda i: abs(x[i, j])) if pivot else j
        swaps[j], order[j], order[at] = at, order[at], order[j]
        x[[j, at]] = x[[at, j]]
        for i in range(j + 1, m):
            x[i, j] /= x[j, j]
            x[i, j + 1 :] -= x[i, j] * x[j, j + 1 :]
    return np.column_stack([x, swaps, order])


def _loop_qr(a: Array, *, complete: bool) -> Array:
    """By Gram and Schmidt, with LAPACK's signs: the diagonal of r is negative here."""
    m, n = a.shape
    q = np.zeros((m, n))
    for j in range(n):
        v = a[:, j] - q[:, :j] @ (q[:, :j].T @ a[:, j])
        q[:, j] = -v / np.sqrt((v * v).sum())
    return np.concatenate([q.T, np.triu(q.T @ a)], -1)


def _loop_geqrf(a: Array) -> Array:
    """One reflection after another: v is 1 at the top, tau scales the reflection."""
    m, n = a.shape
    r, out = a.copy(), np.zeros((n + 1, m))
    for j in range(n):
        x = r[j:, j].copy()
        beta = -np.copysign(np.sqrt((x * x).sum()), x[0])
        tau, v = (beta - x[0]) / beta, x / (x[0] - beta)
        v[0] = 1
        r[j:, j:] -= tau * np.outer(v, v @ r[j:, j:])
        r[j + 1 :, j] = v[1:]
        out[n, j] = tau
    out[:n] = r.T
    return out


def _loop_ldl(a: Array, *, hermitian: bool) -> Array:
    """Without swaps; a zero on the diagonal makes a block of the first two of three rows."""
    n = len(a)
    x, places = a.copy(), list(range(1, n + 1))
    if n and a[0, 0] == 0:
        x[2, :2] = _eliminated(a[:2, :2], a[:2, 2:])[:, 0]
        x[2, 2] -= x[2, :2] @ a[:2, 2]
        places[:2] = -2, -2
    else:
        for k in range(n):
            x[k + 1 :, k] /= x[k, k]
            x[k + 1 :, k + 1 :] -= x[k, k] * np.outer(x[k + 1 :, k], x[k + 1 :, k])
    return np.column_stack([np.tril(x), places])


def _loop_ldl_solve(a: Array, places: Array, b: Array, *, hermitian: bool) -> Array:
    """Of the sample below: rows 0 and 2 are swapped, rows 1 and 2 are a block of D."""
    if not a.size:
        return b
    d, low = np.diag(np.diag(a)), np.tril(a, -1) + np.eye(4)
    d[1, 2] = d[2, 1] = a[2, 1]
    low[2, 1], swap = 0, [2, 1, 0, 3]
    return _eliminated((low @ d @ low.T)[swap][:, swap], b)


def _loop_det(a: Array) -> Array:
    """By Leibniz: the sum over permutations."""
    total = 0.0
    for order in itertools.permutations(range(len(a))):
        odd = sum(x > y for x, y in itertools.combinations(order, 2)) % 2
        total += (1 - 2 * odd) * math.prod(a[i, j] for i, j in enumerate(order))
    return np.array(total)


def _loop_cofactor(a: Array) -> Array:
    out = np.empty_like(a)
    for i, j in np.ndindex(a.shape):
        rest = np.delete(np.delete(a, i, 0), j, 1)
        out[i, j] = (1 - 2 * ((i + j) % 2)) * _loop_det(rest)
    return out


def _loop_pinv(a: Array, atol: Array, rtol: Array) -> Array:
    """Of a matrix of full rank."""
    high = a.shape[0] >= a.shape[1]
    return _eliminated(a.T @ a, a.T) if high else _eliminated(a @ a.T, a).T


def _off(at: int, shape: tuple[int, ...]) -> Array:
    """Draws with a large diagonal: far from singular."""
    return draws(at, shape) + 4 * np.eye(shape[-2], shape[-1])


_NO_MATRIX = {"0-d": "a matrix has two dims", "nan": "LAPACK says what comes of it"}
_WIDE: dict[str, Any] = {
    "floats": ("float32", "float64"),
    "layouts": LAYOUTS[:3],
    "without": _NO_MATRIX,
}
_SQUARES = (_off(1, (3, 3)), _off(2, (2, 3, 3)))
_POSITIVE = _SQUARES[1] @ _SQUARES[1].swapaxes(-1, -2)
_SYMMETRIC = draws(4, (3, 3)) + draws(4, (3, 3)).T + np.diag([1.0, 5.0, 9.0])
_NONE = np.zeros((0, 3, 3))
SAMPLES["solve"] = Samples(
    lambda a, b, *, check: _stacked(_eliminated, a, b),
    "several",
    (
        Sample("odd", (_SQUARES[0], draws(3, (3, 2))), {"check": True}, (0, 1)),
        Sample("batch", (_SQUARES[1], draws(3, (2, 3, 2))), {"check": True}),
        Sample("empty", (np.zeros((0, 0)), np.zeros((0, 2))), {"check": True}),
    ),
    **_WIDE,
)
SAMPLES["solve_triangular"] = Samples(
    _loop_triangular,
    "several",
    tuple(
        Sample(name, (a, b), {"upper": upper, "unit": unit, "full": False}, grad)
        for name, a, b, upper, unit, grad in (
            ("odd", _SQUARES[0], draws(3, (3, 2)), True, False, (0, 1)),
            ("lower", _SQUARES[0], draws(3, (3, 2)), False, True, (0, 1)),
            ("batch", _SQUARES[1], draws(3, (2, 3, 2)), False, False, ()),
            ("empty", np.zeros((0, 0)), np.zeros((0, 2)), True, False, ()),
        )
    ),
    **_WIDE,
)
SAMPLES["cholesky"] = Samples(
    _loop_cholesky,
    "several",
    (
        Sample("odd", (_POSITIVE,), {"check": True, "upper": False}),
        Sample("upper", (_POSITIVE,), {"check": True, "upper": True}),
        Sample("empty", (_NONE,), {"check": True, "upper": False}),
        Sample("one", (np.array([[4.0]]),), {"check": False, "upper": False}, (0,)),
    ),
    **_WIDE,
)
SAMPLES["lu"] = Samples(
    _loop_lu,
    "several",
    (
        Sample("odd", (_SQUARES[0],), {"pivot": False}, (0,)),
        Sample("high", (draws(1, (4, 3)),), {"pivot": True}),
        Sample("wide", (draws(1, (2, 4)),), {"pivot": True}),
        Sample("empty", (np.zeros((0, 3)),), {"pivot": False}),
    ),
    **_WIDE,
)
SAMPLES["qr"] = Samples(
    _loop_qr,
    "several",
    (
        Sample("odd", (_off(1, (5, 3)),), {"complete": False}, (0,)),
        Sample("empty", (np.zeros((3, 0)),), {"complete": False}),
    ),
    **_WIDE,
)
# A symmetric matrix without a sign to choose: what svd and eigh give is put together again.
SAMPLES["svd"] = Samples(
    lambda a, *, full: np.array([[1.0, a.item(), 1.0]]),
    "several",
    (
        Sample("odd", (np.array([[2.5]]),), {"full": False}, (0,)),
        Sample("full", (np.array([[1.5]]),), {"full": True}),
    ),
    layouts=("plain",),
    floats=("float32", "float64"),
    without={**_NO_MATRIX, "empty": "see the goldens"},
)
SAMPLES["eigh"] = Samples(
    lambda a, *, upper: np.array([[1.0, a.item()]]),
    "several",
    (Sample("odd", (np.array([[2.5]]),), {"upper": False}, (0,)),),
    layouts=("plain",),
    floats=("float32", "float64"),
    without={**_NO_MATRIX, "empty": "see the goldens"},
)
SAMPLES["eig"] = Samples(
    lambda a: np.array([[[1.0, 0], [a.item(), 0]]]),
    "several",
    (Sample("odd", (np.array([[2.5]]),), {}, (0,)),),
    layouts=("plain",),
    floats=("float32", "float64"),
    without={**_NO_MATRIX, "empty": "see the goldens"},
)
SAMPLES["geqrf"] = Samples(
    _loop_geqrf,
    "several",
    (
        Sample("odd", (_off(1, (5, 3)),)),
        Sample("empty", (np.zeros((3, 0)),)),
    ),
    **_WIDE,
)
_FACTORS = np.array([[2.0, 9, 9, 9], [0.5, 1, 9, 9], [0.25, 3, 1, 9], [1, 0.5, 0.25, 4.0]])
_PLACES = np.array([3, -3, -3, 4])
SAMPLES["ldl"] = Samples(
    _loop_ldl,
    "several",
    (
        Sample("odd", (np.array([[4.0, 1, 2], [1, 5, 1], [2, 1, 6]]),), {"hermitian": False}),
        Sample("two", (np.array([[0.0, 1, 0], [1, 0, 2], [0, 2, 0]]),), {"hermitian": True}),
        Sample("empty", (np.zeros((0, 0)),), {"hermitian": False}),
    ),
    **_WIDE,
)
SAMPLES["ldl_solve"] = Samples(
    _loop_ldl_solve,
    "several",
    (
        Sample("odd", (_FACTORS, _PLACES, draws(3, (4, 2))), {"hermitian": False}),
        Sample(
            "empty",
            (np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros((0, 2))),
            {"hermitian": True},
        ),
    ),
    **_WIDE,
)
_LEAST = (np.zeros(1), np.full(1, 1e-6))
SAMPLES["pinv"] = Samples(
    lambda *x, hermitian: _stacked(_loop_pinv, *x),
    "several",
    (
        Sample("odd", (_off(1, (1, 4, 3)), *_LEAST), {"hermitian": False}, (0, 1, 2)),
        Sample("wide", (_off(2, (1, 2, 4)), *_LEAST), {"hermitian": False}, (0,)),
        Sample("symmetric", (_SYMMETRIC[None], *_LEAST), {"hermitian": True}),
    ),
    **(_WIDE | {"without": {**_NO_MATRIX, "empty": "see the goldens"}}),
)
SAMPLES["det"] = Samples(
    lambda a: _stacked(_loop_det, a),
    "several",
    (
        Sample("odd", (_SQUARES[0],)),
        Sample("batch", (_SQUARES[1],), {}, (0,)),
        Sample("empty", (np.zeros((0, 0)),)),
    ),
    **_WIDE,
)
SAMPLES["cofactor"] = Samples(
    lambda a: _stacked(_loop_cofactor, a),
    "several",
    (
        Sample("odd", (_SQUARES[0],), {}, (0,)),
        Sample("batch", (_SQUARES[1],)),
        Sample("singular", (np.array([[1.0, 2.0], [2.0, 4.0]]),)),
    ),
    **(_WIDE | {"without": {**_NO_MATRIX, "empty": "there is none of it"}}),
)
