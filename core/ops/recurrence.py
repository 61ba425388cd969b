"""Recurrences along a sequence, one token after another in one kernel.

`selective_scan`, `wkv` and `gated_delta_rule` run the first two where no gradient is needed, layers
of LSTMs and their kin the last one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from rushlight.core.backends.cells import BACKWARD, SAVED
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.layout import Layout, Shape
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import matmul
from rushlight.core.ops.unary import tanh
from rushlight.core.tensor import autograd
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_scan(x: Meta, dt: Meta, a: Meta, b: Meta, c: Meta, state: Meta | None = None) -> Meta:
    batch, length, channels = x.shape
    return x.fresh((batch, length + a.shape[1], channels))


def _infer_delta(
    r: Meta,
    decay: Meta,
    k: Meta,
    v: Meta,
    a: Meta | None,
    b: Meta | None,
    state: Meta | None = None,
    *,
    before: bool,
) -> Meta:
    batch, heads, length, values = v.shape
    return v.fresh((batch, heads, length + k.shape[3], values))


# h <- exp(dt a) h + dt x b, y = sum of h c over the states. x and dt: (batch, length, channels); a:
# (channels, n); b and c: (batch, length, groups, n); state: (batch, channels, n) or None. The
# result is y, and after it the last state as n further rows: (batch, length + n, channels).
SELECTIVE_SCAN = Op("selective_scan", infer=_infer_scan, differentiable=False)
# S <- diag(decay) S + b (a^T S) + k v^T, and r^T S of the S after a token, or before it. r, k, a
# and b: (batch, heads, length, keys); decay: the same or 1 wide; v: (batch, heads, length, values);
# state: (batch, heads, keys, values) or None. The result is the outputs, and after them the last
# S: (batch, heads, length + keys, values).
DELTA_SCAN = Op("delta_scan", infer=_infer_delta, differentiable=False)


def _infer_cells(
    x: Meta,
    w_ih: Meta,
    w_hh: Meta,
    b_ih: Meta | None,
    b_hh: Meta | None,
    *states: Meta | None,
    mode: str,
    back: bool,
) -> Meta:
    alone = len(x.shape) == 2 and SAVED[mode] == 1  # one state of one step is the result itself
    return x.fresh((*(() if alone else (SAVED[mode],)), *x.shape[:-1], w_hh.shape[1]))


def _shapes(x: Meta, w_ih: Meta, w_hh: Meta, mode: str) -> list[tuple[int, ...]]:
    """The shapes of the gradients of a scan's inputs, in their order."""
    gates, size = w_hh.shape
    state = (x.shape[-2], size)
    states = [state, state] if mode == "LSTM" else [state]
    return [x.shape, w_ih.shape, w_hh.shape, (gates,), (gates,), *states]


@lru_cache(256)
def _parts(x: Shape, w_ih: Shape, w_hh: Shape, mode: str) -> tuple[Layout, ...]:
    """Where the gradients of a scan's inputs lie in what CELL_SCAN_BACKWARD gives."""
    layouts, start = [], 0
    metas = [Meta(float32, Layout.contiguous(s)) for s in (x, w_ih, w_hh)]
    for shape in _shapes(metas[0], metas[1], metas[2], mode):
        plain = Layout.contiguous(shape)
        layouts.append(Layout(shape, plain.strides, start))
        start += plain.numel
    return tuple(layouts)


def _infer_backward(
    grad: Meta,
    saved: Meta,
    x: Meta,
    w_ih: Meta,
    w_hh: Meta,
    *first: Meta,
    mode: str,
    back: bool,
    wants: tuple[bool, ...],
) -> Meta:
    return grad.fresh((sum(map(math.prod, _shapes(x, w_ih, w_hh, mode))),))


def _before(saved: Tensor, first: Tensor, k: int, back: bool) -> Tensor:
    """State k as it was before each step: (length, n, size)."""
    length = saved.shape[1]
    start, state = first.reshape(1, *first.shape), saved[k]
    return cat([state[1:], start]) if back else cat([start, state[: length - 1]])


def _backward_in_ops(
    grad: Tensor,
    saved: Tensor,
    x: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    first: tuple[Tensor, ...],
    mode: str,
    back: bool,
) -> list[Tensor]:
    """What `CELL_SCAN_BACKWARD` computes in ops, through which gradients flow again."""
    if x.ndim == 2:
        shape = (SAVED[mode], 1, *saved.shape[-2:])
        grad, saved = grad.reshape(*shape), saved.reshape(*shape)
    length = saved.shape[1]
    before = [_before(saved, state, k, back) for k, state in enumerate(first)]
    order = range(length) if back else range(length - 1, -1, -1)
    steps, last = BACKWARD[mode](grad, saved, before, w_hh, order, tanh, lambda x: cat(x, -1))
    rows = cat([steps[t] for t in range(length)])  # (length * n, PARTS * size)
    into, onward = rows, rows
    if mode == "GRU":
        size = saved.shape[-1]
        into = rows[:, : 3 * size]
        onward = cat([rows[:, : 2 * size], rows[:, 3 * size :]], -1)
    flat, hidden = x.reshape(rows.shape[0], x.shape[-1]), before[0].reshape(rows.shape[0], -1)
    return [
        matmul(into, w_ih).reshape(*x.shape),
        matmul(into.t(), flat),
        matmul(onward.t(), hidden),
        into.sum(0),
        onward.sum(0),
        *last,
    ]


def _cell_grads(
    c: Context,
    g: Tensor,
    x: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    h: Tensor,
    cell: Tensor | None,
    saved: Tensor,
) -> tuple[Tensor | None, ...]:
    mode, back = c.attrs["mode"], c.attrs["back"]
    first = (h,) if cell is None else (h, cell)
    if autograd.is_grad_enabled():
        gradients: list[Tensor | None] = list(
            _backward_in_ops(g, saved, x, w_ih, w_hh, first, mode, back)
        )
    else:
        flat = CELL_SCAN_BACKWARD(
            g, saved, x, w_ih, w_hh, *first, mode=mode, back=back, wants=c.needs
        )
        layouts = _parts(x.shape, w_ih.shape, w_hh.shape, mode)
        gradients = [
            flat.alias(layout) if need else None
            for layout, need in zip(layouts, c.needs, strict=False)
        ]
    gradients += [None] * (7 - len(gradients))
    return tuple(grad if need else None for grad, need in zip(gradients, c.needs, strict=True))


# Cells of a kind (functional/network/recurrent.py) over a sequence. x: (length, n, width), or
# (n, width) of one step; w_ih and w_hh: (gates, width or size); biases: (gates,) or None; states:
# h, and c of an LSTM or None, each (n, size). back: from the last step to the first. The result
# holds what gradients need of each step, states first: (SAVED, length, n, size), or without length,
# and without SAVED too where that is one.
CELL_SCAN = Op("cell_scan", infer=_infer_cells, joint=rule(_cell_grads, 0, 1, 2, 5, 6, "out"))
# The gradients of a scan's inputs, flat, one after another; those not in `wants` are not computed.
CELL_SCAN_BACKWARD = Op("cell_scan_backward", infer=_infer_backward, differentiable=False)
