"""Samples of the ops of core/ops/recurrence.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import NAN, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _loop_selective(
    x: Array, dt: Array, a: Array, b: Array, c: Array, state: Array | None = None
) -> Array:
    """A channel and a token after another, by the definition."""
    (rows, length, channels), n = x.shape, a.shape[1]
    out = np.zeros((rows, length + n, channels))
    for i, ch in np.ndindex(rows, channels):
        h, g = np.zeros(n) if state is None else state[i, ch], ch * b.shape[2] // channels
        for t in range(length):
            h = np.exp(dt[i, t, ch] * a[ch]) * h + dt[i, t, ch] * x[i, t, ch] * b[i, t, g]
            out[i, t, ch] = h @ c[i, t, g]
        out[i, length:, ch] = h
    return out


_SCANNED = (
    draws(1, (2, 5, 6)),
    abs(draws(2, (2, 5, 6))),
    -abs(draws(3, (6, 3))),
    draws(4, (2, 5, 2, 3)),
    draws(5, (2, 5, 2, 3)),
    draws(6, (2, 6, 3)),
)
_NO_0D = {"0-d": "a sequence has dims"}
SAMPLES["selective_scan"] = Samples(
    _loop_selective,
    "several",
    (
        Sample("odd", _SCANNED),
        Sample("anew", (*_SCANNED[:5], None)),
        Sample("empty", tuple(x[:0] if i != 2 else x for i, x in enumerate(_SCANNED))),
        Sample("nan", (np.where(_SCANNED[0] > 1.5, NAN, _SCANNED[0]), *_SCANNED[1:])),
    ),
    floats=("float32", "float64"),
    without=_NO_0D,
)


def _loop_delta(
    r: Array,
    decay: Array,
    k: Array,
    v: Array,
    a: Array | None,
    b: Array | None,
    state: Array | None = None,
    *,
    before: bool,
) -> Array:
    """A head and a token after another, by the definition."""
    rows, heads, length, keys = k.shape
    out = np.zeros((rows, heads, length + keys, v.shape[3]))
    for at in np.ndindex(rows, heads):
        s = np.zeros((keys, v.shape[3])) if state is None else state[at]
        for t in range(length):
            now = decay[at][t][:, None] * s + np.outer(k[at][t], v[at][t])
            if a is not None and b is not None:
                now = now + np.outer(b[at][t], a[at][t] @ s)
            out[at][t] = r[at][t] @ (s if before else now)
            s = now
        out[at][length:] = s
    return out


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _loop_cells(
    x: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    h: Array,
    c: Array | None = None,
    *,
    mode: str,
    back: bool,
) -> Array:
    """A step after another, by the definition of the cells."""
    steps = x if x.ndim == 3 else x[None]
    found: list[Any] = [None] * len(steps)
    for t in range(len(steps))[:: -1 if back else 1]:
        a = np.einsum("ni,gi->ng", steps[t], w_ih) + (0 if b_ih is None else b_ih)
        b = np.einsum("ni,gi->ng", h, w_hh) + (0 if b_hh is None else b_hh)
        if mode == "LSTM":
            i, f, g, o = np.split(a + b, 4, -1)
            i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
            c = f * c + i * g
            h = o * np.tanh(c)
            found[t] = [h, c, i, f, g, o]
        elif mode == "GRU":
            (r, z, n), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
            r, z = _logistic(r + hr), _logistic(z + hz)
            n = np.tanh(n + r * hn)
            h = (1 - z) * n + z * h
            found[t] = [h, r, z, n, hn]
        else:
            h = np.tanh(a + b) if mode == "RNN_TANH" else np.maximum(a + b, 0)
            found[t] = [h]
    out = np.array(found).swapaxes(0, 1)
    if x.ndim == 3:
        return out
    return out[0, 0] if len(out) == 1 else out[:, 0]


def _cells(
    mode: str, gates: int, length: int = 3, n: int = 2, hidden: int = 5, inputs: int = 4
) -> tuple[Array | None, ...]:
    seed, rows = itertools.count(gates), gates * hidden
    w = [draws(next(seed), s) for s in ((rows, inputs), (rows, hidden), (rows,), (rows,))]
    state = [draws(next(seed), (n, hidden)) if i == 0 or mode == "LSTM" else None for i in range(2)]
    return draws(next(seed), (length, n, inputs)), *w, *state


def _kinds(**more: Any) -> Iterator[tuple[str, tuple[Array | None, ...]]]:
    for mode, gates in (("LSTM", 4), ("GRU", 3), ("RNN_TANH", 1), ("RNN_RELU", 1)):
        yield mode, _cells(mode, gates, **more)


def _cell_samples() -> Iterator[Sample]:
    for back, label in ((False, "odd"), (True, "back")):
        for mode, given in _kinds():
            yield Sample(label, given, {"mode": mode, "back": back})
        # Each number is moved four times: there are few.
        for mode, given in _kinds(hidden=3, inputs=2):
            checked = (0, 1, 2, 3, 4, 5, 6)[: 7 if mode == "LSTM" else 6]
            yield Sample(f"{label}, small", given, {"mode": mode, "back": back}, checked)
    for mode, (x, *rest) in _kinds():
        assert x is not None
        yield Sample("one step", (x[0], *rest), {"mode": mode, "back": False}, (0, 2))
        plain = (x, *rest[:2], None, None, *rest[4:])
        yield Sample("no biases", plain, {"mode": mode, "back": False})
        lost = (np.where(x > 0.9, NAN, x), *rest)
        yield Sample("nan", lost, {"mode": mode, "back": False})
    for mode, given in _kinds(n=0):
        yield Sample("empty", given, {"mode": mode, "back": False})


SAMPLES["cell_scan"] = Samples(
    _loop_cells, "several", tuple(_cell_samples()), floats=("float32", "float64"), without=_NO_0D
)


def _cell_slopes(
    grad: Array,
    saved: Array,
    x: Array,
    w_ih: Array,
    w_hh: Array,
    h: Array,
    c: Array | None = None,
    *,
    mode: str,
    back: bool,
    wants: tuple[bool, ...],
) -> Array:
    """The slopes of (grad * result).sum() by central differences of the definition."""
    gates = len(w_hh)
    inputs = [x, w_ih, w_hh, np.zeros(gates), _HIDDEN_BIAS[:gates], h, *([] if c is None else [c])]
    slopes = []
    for given in inputs:
        slope = np.zeros(given.shape)
        for at in np.ndindex(given.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() if v is given else v for v in inputs]
                moved[[v is given for v in inputs].index(True)][at] += step
                ends.append((grad * _loop_cells(*moved, mode=mode, back=back)).sum())
            slope[at] = (ends[0] - ends[1]) / 2e-6
        slopes.append(slope.reshape(-1))
    return np.concatenate(slopes)


_HIDDEN_BIAS = draws(77, (20,))


def _slope_samples() -> Iterator[Sample]:
    for back, label in ((False, "odd"), (True, "back")):
        for mode, (x, w_ih, w_hh, _, _, h, c) in _kinds():
            assert x is not None and w_hh is not None and w_ih is not None and h is not None
            gates = len(w_hh)
            saved = _loop_cells(
                x, w_ih, w_hh, np.zeros(gates), _HIDDEN_BIAS[:gates], h, c, mode=mode, back=back
            )
            first = (h,) if c is None else (h, c)
            attrs = {"mode": mode, "back": back, "wants": (True,) * 7}
            given = (draws(5, saved.shape), saved, x, w_ih, w_hh, *first)
            yield Sample(label, given, attrs)
            if not back and mode == "GRU":
                yield Sample(
                    "empty",
                    (given[0][:, :, :0], saved[:, :, :0], x[:, :0], w_ih, w_hh, h[:0]),
                    attrs,
                )


SAMPLES["cell_scan_backward"] = Samples(
    _cell_slopes,
    "difference",
    tuple(_slope_samples()),
    floats=("float64",),
    layouts=("plain", "permuted", "sliced"),
    without={**_NO_0D, "nan": "the slopes of the definition are taken by differences"},
)


_HEADS = tuple(draws(i, (2, 3, 4, n)) for i, n in enumerate((5, 5, 5, 7, 5, 5)))
_FIRST = draws(7, (2, 3, 5, 7))
_MANY = tuple(draws(i, (1, 2, 3, n)) / 8 for i, n in enumerate((80, 80, 80, 8)))
_SIXTEEN = tuple(draws(i, (1, 2, 3, n)) / 4 for i, n in enumerate((16, 16, 16, 12, 16, 16)))
SAMPLES["delta_scan"] = Samples(_loop_delta, "several", (
    Sample("odd", (*_HEADS, _FIRST), {"before": False}),
    Sample("one decay", (_HEADS[0], _HEADS[1][..., :1], *_HEADS[2:4], None, None, _FIRST),
           {"before": True}),
    Sample("anew", (*_HEADS[:4], None, None, None), {"before": False}),
    Sample("many keys", (*_MANY, None, None, draws(8, (1, 2, 80, 8))), {"before": True}),
    Sample("four columns", (*_SIXTEEN, draws(8, (1, 2, 16, 12))), {"before": False}),
    Sample("empty", (*(x[:0] for x in _HEADS), _FIRST[:0]), {"before": False}),
    Sample("nan", (_HEADS[0], np.where(_HEADS[1] > 1.5, NAN, _HEADS[1]), *_HEADS[2:], _FIRST),
           {"before": True}),
), floats=("float32", "float64"), without=_NO_0D)  # fmt: skip
