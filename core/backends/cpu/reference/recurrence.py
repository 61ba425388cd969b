"""NumPy kernels of recurrences along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.cells import BACKWARD

Array = npt.NDArray[Any]


def _selective_scan(
    out: Array,
    x: Array,
    dt: Array,
    a: Array,
    b: Array,
    c: Array,
    state: Array | None = None,
    last: Array | None = None,
) -> None:
    (batch, length, channels), n = x.shape, a.shape[1]
    h = np.zeros((batch, channels, n), x.dtype) if state is None else state
    for t in range(length):
        # (batch, groups, n) -> (batch, channels, n)
        write, read = (np.repeat(y[:, t], channels // max(y.shape[2], 1), 1) for y in (b, c))
        step = dt[:, t, :, None]
        h = np.exp(step * a) * h + step * x[:, t, :, None] * write
        out[:, t] = (h * read).sum(-1)
    (out[:, length:] if last is None else last)[...] = h.transpose(0, 2, 1)


def _delta_scan(
    out: Array,
    r: Array,
    decay: Array,
    k: Array,
    v: Array,
    a: Array | None,
    b: Array | None,
    state: Array | None = None,
    last: Array | None = None,
    *,
    before: bool,
) -> None:
    batch, heads, length, keys = k.shape
    s = np.zeros((batch, heads, keys, v.shape[3]), v.dtype) if state is None else state
    for t in range(length):
        now = decay[:, :, t, :, None] * s + k[:, :, t, :, None] * v[:, :, t, None]
        if a is not None and b is not None:
            now += b[:, :, t, :, None] * (a[:, :, t, :, None] * s).sum(-2, keepdims=True)
        out[:, :, t] = (r[:, :, t, :, None] * (s if before else now)).sum(-2)
        s = now
    (out[:, :, length:] if last is None else last)[...] = s


def _sigmoid(x: Array) -> Array:
    out = np.exp(-x)
    out += 1
    return np.reciprocal(out, out=out)


def _lstm(out: Array, gates: Array, products: Array, states: list[Array]) -> list[Array]:
    raw = (gates + products).reshape(len(gates), 4, out.shape[-1])
    active = _sigmoid(raw)
    active[:, 2] = np.tanh(raw[:, 2])
    out[2:] = active.swapaxes(0, 1)
    i, f, g, o = out[2:]
    c = f * states[1]
    c += i * g
    out[1] = c
    return [np.multiply(o, np.tanh(c), out=out[0]), out[1]]


def _gru(out: Array, gates: Array, products: Array, states: list[Array]) -> list[Array]:
    size = out.shape[-1]
    both = _sigmoid(gates[:, : 2 * size] + products[:, : 2 * size])
    out[1], out[2], out[4] = both[:, :size], both[:, size:], products[:, 2 * size :]
    new = np.tanh(gates[:, 2 * size :] + out[1] * out[4], out=out[3])
    out[0] = new + out[2] * (states[0] - new)
    return [out[0]]


def _tanh(out: Array, gates: Array, products: Array, states: list[Array]) -> list[Array]:
    return [np.tanh(gates + products, out=out[0])]


def _relu(out: Array, gates: Array, products: Array, states: list[Array]) -> list[Array]:
    return [np.maximum(gates + products, 0, out=out[0])]


_STEPS = {"RNN_TANH": _tanh, "RNN_RELU": _relu, "LSTM": _lstm, "GRU": _gru}


def _one_step(states: Array) -> Array:
    """(saved, n, size), or (n, size) of one state, as (saved, 1, n, size)."""
    return states[:, None] if states.ndim == 3 else states[None, None]


def _cell_scan(
    out: Array,
    x: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    *first: Array | None,
    mode: str,
    back: bool,
) -> None:
    if x.ndim == 2:
        x, out = x[None], _one_step(out)
    gates, step, turned = x @ w_ih.T, _STEPS[mode], w_hh.T
    if b_ih is not None:
        gates += b_ih
    states = [state for state in first if state is not None]
    order = range(x.shape[0])
    for t in reversed(order) if back else order:
        products = states[0] @ turned
        if b_hh is not None:
            products += b_hh
        states = step(out[:, t], gates[t], products, states)


def _cell_scan_backward(
    out: Array,
    grad: Array,
    saved: Array,
    x: Array,
    w_ih: Array,
    w_hh: Array,
    *first: Array,
    mode: str,
    back: bool,
    wants: tuple[bool, ...],
) -> None:
    if x.ndim == 2:
        grad, saved = _one_step(grad), _one_step(saved)
    (_, length, n, size), gates = saved.shape, len(w_hh)
    before = []
    for k, state in enumerate(first):
        if length == 1:
            before.append(state[None])
            continue
        steps_before = (saved[k, 1:], state[None]) if back else (state[None], saved[k, :-1])
        before.append(np.concatenate(steps_before))
    order = range(length) if back else range(length - 1, -1, -1)
    steps, last = BACKWARD[mode](grad, saved, before, w_hh, order, np.tanh, _joined)
    rows = steps[0] if length == 1 else np.concatenate([steps[t] for t in range(length)])
    into = onward = rows
    if mode == "GRU":
        into, onward = rows[:, : 3 * size], np.delete(rows, np.s_[2 * size : 3 * size], 1)
    flat, hidden = x.reshape(length * n, x.shape[-1]), before[0].reshape(length * n, size)
    slopes: list[tuple[int, Callable[[], Array]]] = [
        (x.size, lambda: into @ w_ih),
        (w_ih.size, lambda: into.T @ flat),
        (w_hh.size, lambda: onward.T @ hidden),
        (gates, lambda: into.sum(0)),
        (gates, lambda: onward.sum(0)),
    ]
    start = 0
    for (count, compute), wanted in zip(slopes, wants, strict=False):
        if wanted:
            out[start : start + count] = compute().reshape(-1)
        start += count
    for end in last:
        out[start : start + end.size] = end.reshape(-1)
        start += end.size


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts, -1)


KERNELS: dict[str, Callable[..., None]] = {
    "selective_scan": _selective_scan,
    "delta_scan": _delta_scan,
    "cell_scan": _cell_scan,
    "cell_scan_backward": _cell_scan_backward,
}
