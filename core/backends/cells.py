"""Backward of recurrent cells, over NumPy arrays and over tensors alike.

Each function goes through the steps in `order`, the reverse of the forward one, and returns for
each step the gradient of what the activations are applied to (of a GRU that of r, z, n, and of
W h + b of the new state), and the gradients of the first states. The formulas are the derivatives
of the cells in `core/functional/network/recurrent.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# LSTM: h, c, i, f, g, o. GRU: h, r, z, n, and W h + b of the new state. RNN: h.
SAVED = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 6, "GRU": 5}
Steps = tuple[dict[int, Any], Sequence[Any]]


def _lstm(
    grad: Any,
    out: Any,
    before: Any,
    weight: Any,
    order: Sequence[int],
    tanh: Callable[[Any], Any],
    cat: Callable[[list[Any]], Any],
) -> Steps:
    _, c, i, f, g, o = (out[k] for k in range(6))
    last_c = before[1]
    squashed = tanh(c)
    through = o * (1 - squashed * squashed)
    of_i, of_f, of_g, of_o = i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)
    by_i, by_f, by_g, by_o = g * of_i, last_c * of_f, i * of_g, squashed * of_o
    own_i, own_f, own_g, own_o = grad[2] * of_i, grad[3] * of_f, grad[4] * of_g, grad[5] * of_o
    steps: dict[int, Any] = {}
    dh = dc = 0.0
    for t in order:
        dh = grad[0][t] + dh
        dc = dh * through[t] + (grad[1][t] + dc)
        steps[t] = cat(
            [
                dc * by_i[t] + own_i[t],
                dc * by_f[t] + own_f[t],
                dc * by_g[t] + own_g[t],
                dh * by_o[t] + own_o[t],
            ]
        )
        dh, dc = steps[t] @ weight, dc * f[t]
    return steps, (dh, dc)


def _gru(
    grad: Any,
    out: Any,
    before: Any,
    weight: Any,
    order: Sequence[int],
    tanh: Callable[[Any], Any],
    cat: Callable[[list[Any]], Any],
) -> Steps:
    _, r, z, n, hidden = (out[k] for k in range(5))
    of_r, of_z, of_n = r * (1 - r), z * (1 - z), 1 - n * n
    size = r.shape[-1]
    toward, keep = before[0] - n, 1 - z
    steps: dict[int, Any] = {}
    dh: Any = 0.0
    for t in order:
        dh = grad[0][t] + dh
        dn = (dh * keep[t] + grad[3][t]) * of_n[t]
        dz = (dh * toward[t] + grad[2][t]) * of_z[t]
        dr = (dn * hidden[t] + grad[1][t]) * of_r[t]
        of_hidden = dn * r[t] + grad[4][t]
        steps[t] = cat([dr, dz, dn, of_hidden])
        dh = dh * z[t] + cat([steps[t][..., : 2 * size], of_hidden]) @ weight
    return steps, (dh,)


def _rnn(relu: bool) -> Callable[..., Steps]:
    def steps_of(
        grad: Any,
        out: Any,
        before: Any,
        weight: Any,
        order: Sequence[int],
        tanh: Callable[[Any], Any],
        cat: Callable[[list[Any]], Any],
    ) -> Steps:
        h = out[0]
        steps: dict[int, Any] = {}
        dh: Any = 0.0
        slope = (h > 0) * 1.0 if relu else 1 - h * h
        for t in order:
            steps[t] = (grad[0][t] + dh) * slope[t]
            dh = steps[t] @ weight
        return steps, (dh,)

    return steps_of


# (grad, out, before, weight, order, tanh, cat): `out` is what the forward saved, (saved, length, n,
# size); grad has its shape; before: of each state, (length, n, size), as it was before each step;
# weight: (gates, size); tanh, cat: functions of the library, cat along the last dim.
BACKWARD: dict[str, Callable[..., Steps]] = {
    "RNN_TANH": _rnn(False),
    "RNN_RELU": _rnn(True),
    "LSTM": _lstm,
    "GRU": _gru,
}
