"""Recurrences as nodes: LSTM, GRU and RNN, and Scan for those that have no operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.onnx.export import writing
from rushlight.core.onnx.export.graph import Graph, emits
from rushlight.core.onnx.export.integers import Int
from rushlight.core.onnx.export.joining import Step
from rushlight.core.onnx.export.nodes.elementwise import number_of
from rushlight.core.onnx.export.nodes.movement import size_at

# The operator, and where each of its gates lies among ours: of an LSTM i, o, f, g of our i, f, g,
# o; of a GRU z, r, n of our r, z, n.
_CELLS = {
    "LSTM": ("LSTM", (0, 3, 1, 2)),
    "GRU": ("GRU", (1, 0, 2)),
    "RNN_TANH": ("RNN", (0,)),
    "RNN_RELU": ("RNN", (0,)),
}


def _ordered(g: Graph, name: str, size: int, order: Sequence[int]) -> str:
    """The gates of a weight or bias in the operator's order, along dim 0."""
    if len(order) == 1:
        return name
    return g.op("Concat", *(g.slice(name, 0, k * size, (k + 1) * size) for k in order), axis=0)


@emits("cell_scan", exact=True)
def cell_scan(g: Graph, s: Step) -> str:
    """One direction of a layer: the states are the operator's outputs."""
    x, w_ih, w_hh, b_ih, b_hh, h, c = (*s.inputs, None)[:7]
    assert x is not None and w_ih is not None and w_hh is not None and h is not None
    mode, back = s.attrs["mode"], s.attrs["back"]
    op, order = _CELLS[mode]
    size, rank = g.shape(w_hh)[1], g.rank(x)
    name = g.get(x)
    if rank == 2:
        name = g.axes("Unsqueeze", name, 0)
    weights = [_ordered(g, g.get(w), size, order) for w in (w_ih, w_hh)]
    inputs = [name, *(g.axes("Unsqueeze", w, 0) for w in weights)]
    if b_ih is None and b_hh is None:
        inputs.append("")
    else:
        zero = g.constant(np.zeros(g.shape(w_hh)[0]), g.dtype(x))
        both = [_ordered(g, g.get(b) or zero, size, order) for b in (b_ih, b_hh)]
        inputs.append(g.axes("Unsqueeze", g.op("Concat", *both, axis=0), 0))
    inputs += ["", g.axes("Unsqueeze", g.get(h), 0)]
    if c is not None:
        inputs.append(g.axes("Unsqueeze", g.get(c), 0))
    options: dict[str, Any] = {"hidden_size": size}
    if back:
        options["direction"] = "reverse"
    if op == "GRU":
        options["linear_before_reset"] = 1
    if mode == "RNN_RELU":
        options["activations"] = ["Relu"]
    made = g.several(op, inputs, 3 if op == "LSTM" else 2, **options)
    states = g.axes("Squeeze", made[0], 1)  # (length, n, size)
    if rank == 2:
        states = g.axes("Squeeze", states, 0)
    if op == "RNN":
        return states if rank == 2 else g.axes("Unsqueeze", states, 0)
    g.cells[s.out] = {(0,): states}
    if op == "LSTM":
        last = g.axes("Squeeze", made[2], 0)
        g.cells[s.out] |= {(1,): last} if rank == 2 else {(1, 0 if back else -1): last}
    return ""


class _Body:
    """The graph within a Scan: nodes over its own names."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []
        self.count = 0

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The result of a node."""
        self.count += 1
        out = f"scan_{op}_{self.count}"
        self.nodes.append(writing.node(op, inputs, [out], attributes, f"{out}_node"))
        return out

    def sum(self, name: str, axis: int) -> str:
        """The sum over a dim, which is removed."""
        self.count += 1
        axes = f"scan_axes_{self.count}"
        data = np.array([axis], np.int64).tobytes()
        self.constants.append(writing.tensor(axes, 7, [1], data))
        return self.op("ReduceSum", name, axes, keepdims=0)


def _scan(
    g: Graph,
    body: _Body,
    states: Sequence[tuple[str, str, int]],
    read: Sequence[tuple[str, int]],
    ends: Sequence[str],
    number: int,
    axis: int,
) -> tuple[str, ...]:
    """A Scan. states: (first value, name within, rank); read: (value, rank within) along `axis`.

    Names within are scan_in_K; `ends` are the new states and then what each step gives.
    """

    def told(name: str, rank: int) -> bytes:
        return writing.value_info(name, number, [f"{name}_{d}" for d in range(rank)])

    inputs = [told(n, rank) for _, n, rank in states]
    inputs += [told(f"scan_in_{k}", rank) for k, (_, rank) in enumerate(read)]
    outputs = [writing.message(1, e) + writing.message(2, _type(number)) for e in ends]
    graph = b"".join(writing.message(1, n) for n in body.nodes) + writing.message(2, "step")
    graph += b"".join(writing.message(5, c) for c in body.constants)
    graph += b"".join(writing.message(11, i) for i in inputs)
    graph += b"".join(writing.message(12, o) for o in outputs)
    outs = len(ends) - len(states)
    return g.several(
        "Scan",
        [*(v for v, _, _ in states), *(v for v, _ in read)],
        len(ends),
        body=("graph", graph),
        num_scan_inputs=len(read),
        scan_input_axes=[axis] * len(read),
        scan_output_axes=[axis] * outs,
    )


def _type(number: int) -> bytes:
    return writing.message(1, writing.integer(1, number))


def _state(g: Graph, s: Step, value: int | None, shape: list[Int]) -> str:
    """The first state, zeros where there is none."""
    if value is not None:
        return g.reshape(g.get(value), shape)
    zero = g.constant(np.array(0), g.dtype(s.out))
    return g.op("Expand", zero, g.ints(shape))


@emits("selective_scan")
def selective_scan(g: Graph, s: Step) -> str:
    """h <- exp(dt a) h + dt x b, and y = h c, by Scan over (batch, groups, channels, states)."""
    x, dt, a, b, c, state = (*s.inputs, None)[:6]
    assert x is not None and dt is not None and a is not None and b is not None and c is not None
    groups, n = g.shape(b)[2], g.shape(b)[3]
    channels = g.shape(x)[2]
    each = channels // groups
    wide = [g.reshape(g.get(v), [0, 0, groups, each, 1]) for v in (x, dt)]
    rows = [g.reshape(g.get(v), [0, 0, groups, 1, n]) for v in (b, c)]
    rates = g.reshape(g.get(a), [groups, each, n])
    start = _state(g, s, state, [size_at(g, x, 0), groups, each, n])
    body = _Body()
    new = body.op("Mul", body.op("Mul", "scan_in_1", "scan_in_0"), "scan_in_2")
    decay = body.op("Exp", body.op("Mul", "scan_in_1", "scan_rates"))
    h = body.op("Add", body.op("Mul", decay, "scan_h"), new)
    y = body.sum(body.op("Mul", h, "scan_in_3"), 3)
    kept = body.op("Identity", "scan_rates")
    states = [(start, "scan_h", 4), (rates, "scan_rates", 3)]
    read = [(wide[0], 4), (wide[1], 4), (rows[0], 4), (rows[1], 4)]
    number = number_of(g.dtype(s.out))
    last, _, out = _scan(g, body, states, read, [h, kept, y], number, 1)
    last = g.op("Transpose", g.reshape(last, [0, channels, n]), perm=[0, 2, 1])
    return g.op("Concat", g.reshape(out, [0, 0, channels]), last, axis=1)


@emits("delta_scan")
def delta_scan(g: Graph, s: Step) -> str:
    """S <- decay S + b (a^T S) + k v^T, and r^T S, by Scan over (batch, heads, keys, values)."""
    r, decay, k, v, a, b, state = (*s.inputs, None)[:7]
    assert r is not None and k is not None and v is not None and decay is not None
    columns = [r, decay, k, *(t for t in (a, b) if t is not None)]
    read = [(g.axes("Unsqueeze", g.get(t), 4), 4) for t in columns]
    read.insert(3, (g.axes("Unsqueeze", g.get(v), 3), 4))
    heads, keys, values = g.shape(k)[1], g.shape(k)[3], g.shape(v)[3]
    start = _state(g, s, state, [size_at(g, k, 0), heads, keys, values])
    body = _Body()
    old = "scan_s"
    now = body.op("Mul", "scan_in_1", old)
    now = body.op("Add", now, body.op("Mul", "scan_in_2", "scan_in_3"))
    if a is not None and b is not None:
        seen = body.op("MatMul", body.op("Transpose", "scan_in_4", perm=[0, 1, 3, 2]), old)
        now = body.op("Add", now, body.op("Mul", "scan_in_5", seen))
    out = body.sum(body.op("Mul", "scan_in_0", old if s.attrs["before"] else now), 2)
    number = number_of(g.dtype(s.out))
    last, y = _scan(g, body, [(start, old, 4)], read, [now, out], number, 2)
    return g.op("Concat", y, last, axis=2)
