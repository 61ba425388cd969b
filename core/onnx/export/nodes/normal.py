"""Softmax, norms, rotary positions and attention as nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core.onnx.export.graph import INT64, Emit, Graph, emits
from rushlight.core.onnx.export.integers import Dim, Int
from rushlight.core.onnx.export.joining import Step
from rushlight.core.onnx.export.nodes.elementwise import number_of
from rushlight.core.onnx.export.nodes.movement import first
from rushlight.core.onnx.export.nodes.reductions import reduce


def _softmax(name: str) -> Emit:
    return lambda g, s: g.op(name, g.get(first(s)), axis=s.attrs["dim"])


emits("softmax")(_softmax("Softmax"))
emits("log_softmax")(_softmax("LogSoftmax"))


def _mean(g: Graph, x: str, rank: int) -> str:
    return reduce(g, "ReduceMean", x, (rank - 1,), True)


def _number(g: Graph, s: Step, value: float) -> str:
    return g.constant(np.array(value), g.dtype(s.out))


@emits("layer_norm")
def layer_norm(g: Graph, s: Step) -> str:
    """LayerNormalization of opset 17, else its parts."""
    x, weight, bias = s.inputs
    assert x is not None
    eps = float(s.attrs["eps"])
    name, rank = g.get(x), g.rank(x)
    free_width = weight is None and len({sh[-1] for sh in g.joined.shapes[x]}) > 1
    if g.opset >= 17 and not free_width:
        width = g.shape(x)[-1]
        scale = g.get(weight) or g.constant(np.ones(width), g.dtype(s.out))
        inputs = [name, scale, *([g.get(bias)] if bias is not None else [])]
        return g.op("LayerNormalization", *inputs, axis=-1, epsilon=eps)
    centred = g.op("Sub", name, _mean(g, name, rank))
    spread = g.op("Add", _mean(g, g.op("Mul", centred, centred), rank), _number(g, s, eps))
    out = g.op("Div", centred, g.op("Sqrt", spread))
    out = out if weight is None else g.op("Mul", out, g.get(weight))
    return out if bias is None else g.op("Add", out, g.get(bias))


@emits("rms_norm")
def rms_norm(g: Graph, s: Step) -> str:
    """RMSNormalization of opset 23, else its parts."""
    x, weight = s.inputs
    assert x is not None
    name, rank, eps = g.get(x), g.rank(x), float(s.attrs["eps"])
    if g.opset >= 23 and weight is not None:
        return g.op("RMSNormalization", name, g.get(weight), axis=-1, epsilon=eps)
    size = g.op("Add", _mean(g, g.op("Mul", name, name), rank), _number(g, s, eps))
    out = g.op("Mul", name, g.op("Reciprocal", g.op("Sqrt", size)))
    return out if weight is None else g.op("Mul", out, g.get(weight))


@emits("rope")
def rope(g: Graph, s: Step) -> str:
    """Halves, or pairs, of the features turned; the rest as it is."""
    value, cos, sin = s.inputs
    assert value is not None and cos is not None and sin is not None
    x, axis = g.get(value), g.rank(value) - 1
    width, n = g.shape(value)[-1], g.shape(cos)[-1]
    c, d = _angles(g, s, cos), _angles(g, s, sin)
    step = 2 if s.attrs["interleaved"] else 1
    if step == 2:
        a, b = g.slice(x, axis, 0, 2 * n, 2), g.slice(x, axis, 1, 2 * n, 2)
    else:
        a, b = g.slice(x, axis, 0, n), g.slice(x, axis, n, 2 * n)
    turned = [
        g.op("Sub", g.op("Mul", a, c), g.op("Mul", b, d)),
        g.op("Add", g.op("Mul", a, d), g.op("Mul", b, c)),
    ]
    if step == 2:
        last = g.constant(np.array([axis + 1], np.int64))
        pair = g.op("Concat", *(g.op("Unsqueeze", t, last) for t in turned), axis=axis + 1)
        lead: list[Int] = [0] * axis
        out = g.reshape(pair, [*lead, 2 * n])
    else:
        out = ""
    rest = [] if 2 * n == width else [g.slice(x, axis, 2 * n, width)]
    if step == 1:
        return g.op("Concat", *turned, *rest, axis=axis)
    return g.op("Concat", out, *rest, axis=axis) if rest else out


def _angles(g: Graph, s: Step, value: int) -> str:
    """Cosines or sines, without the expansion over heads."""
    plain = value
    while plain in g.expanded:
        plain = g.expanded[plain]
    keeps = all(
        g.joined.shapes[plain][t][-1] == g.joined.shapes[value][t][-1]
        for t in range(len(g.joined.traces))
    )
    return g.get(plain) if keeps else g.get(value)


# Attention.


def _size(g: Graph, value: int, axis: int) -> Int:
    fixed = len({shape[axis] for shape in g.joined.shapes[value]}) == 1
    return g.shape(value)[axis] if fixed else Dim(value, axis)


def _column(g: Graph, value: int) -> str:
    """(batch,) integers as (batch, 1, 1, 1), int64."""
    name = g.get(value)
    if number_of(g.dtype(value)) != INT64:
        name = g.op("Cast", name, to=INT64)
    return g.reshape(name, [-1, 1, 1, 1])


def _visible(g: Graph, s: Step) -> tuple[str, bool]:
    """The mask of visible keys, "" for all of them; whether a query may see none."""
    q, k, _, _, mask, q_offset, lengths, _ = (*s.inputs, *[None] * 8)[:8]
    assert q is not None and k is not None
    causal, window = s.attrs["causal"], s.attrs["window"]
    parts = [] if mask is None else [g.get(_plain(g, mask))]
    blind = mask is not None or lengths is not None or q_offset is not None
    if causal or window is not None or lengths is not None:
        at_k = g.range(0, 1, _size(g, k, 2))
    if causal or window is not None:
        at_q = g.axes("Unsqueeze", g.range(0, 1, _size(g, q, 2)), 1)
        if q_offset is not None:
            at_q = g.op("Add", at_q, _column(g, q_offset))
    if causal:
        parts.append(g.op("LessOrEqual", at_k, at_q))
    if window is not None:
        width = g.number(window, scalar=True)
        parts.append(g.op("Less", g.op("Sub", at_q, at_k), width))
        if not causal:
            parts.append(g.op("Less", g.op("Sub", at_k, at_q), width))
    if lengths is not None:
        parts.append(g.op("Less", at_k, _column(g, lengths)))
    if window is not None and not _alike(g, q, k):
        blind = True
    seen = ""
    for part in parts:
        seen = part if not seen else g.op("And", seen, part)
    return seen, blind


def _alike(g: Graph, q: int, k: int) -> bool:
    return [a[2] for a in g.joined.shapes[q]] == [b[2] for b in g.joined.shapes[k]]


def _plain(g: Graph, value: int) -> int:
    """A mask or a bias before it was expanded, if it has four dims."""
    while value in g.expanded and g.rank(g.expanded[value]) == g.rank(value):
        value = g.expanded[value]
    return value


def _fused(g: Graph, s: Step) -> str:
    """Attention of opset 23, where it does the same; else ""."""
    q, k, v, bias, mask, q_offset, lengths, sinks = (*s.inputs, *[None] * 8)[:8]
    a = s.attrs
    plain = a["window"] is None and a["softcap"] is None and bias is None
    plain = plain and q_offset is None and lengths is None and sinks is None and mask is None
    if g.opset < 23 or not plain or g.dtype(s.out).name != "float32":
        return ""
    assert q is not None and k is not None
    if a["causal"] and not _alike(g, q, k):
        return ""
    options: dict[str, Any] = {"scale": float(a["scale"]), "is_causal": int(a["causal"])}
    return g.op("Attention", g.get(q), g.get(k), g.get(v), **options)


@emits("attention")
def attention(g: Graph, s: Step) -> str:
    """Products and a softmax; heads that share keys lie in one matrix."""
    q, k, v, bias, _, _, _, sinks = (*s.inputs, *[None] * 8)[:8]
    assert q is not None and k is not None and v is not None
    if g.dtype(k).kind != "f":
        raise g.fail(s, "reads packed keys and values; use a cache of floats")
    fused = _fused(g, s)
    if fused:
        return fused
    a = s.attrs
    heads, kv = g.shape(q)[1], g.shape(k)[1]
    queries, keys, values = g.get(q), g.get(k), g.get(v)
    if a["scale"] != 1:
        queries = g.op("Mul", queries, _number(g, s, a["scale"]))
    if heads != kv:  # (batch, heads, n, d) -> (batch, kv, groups * n, d)
        queries = g.reshape(queries, [0, kv, -1, g.shape(q)[3]])
    scores = g.op("MatMul", queries, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
    length, count = _size(g, q, 2), _size(g, k, 2)
    if heads != kv:
        scores = g.reshape(scores, [0, heads, length, count])
    if a["softcap"] is not None:
        cap = _number(g, s, a["softcap"])
        scores = g.op("Mul", g.op("Tanh", g.op("Div", scores, cap)), cap)
    seen, blind = _visible(g, s)
    if bias is not None:
        added = g.get(_plain(g, bias))
        array = g.array(bias)
        if array is None or np.isneginf(array).any():
            finite = g.op("Greater", added, _number(g, s, -math.inf))
            seen = finite if not seen else g.op("And", seen, finite)
            zero = _number(g, s, 0.0)
            added, blind = g.op("Where", finite, added, zero), True
        scores = g.op("Add", scores, added)
    if seen:
        scores = g.op("Where", seen, scores, _number(g, s, -1e30))
    if sinks is not None:
        weights = _with_sinks(g, s, scores, g.get(_plain(g, sinks)), q, length, count)
    else:
        weights = g.op("Softmax", scores, axis=-1)
    if seen and blind:
        weights = g.op("Where", seen, weights, _number(g, s, 0.0))
    if heads != kv:
        weights = g.reshape(weights, [0, kv, _rows(g, q, heads // kv), count])
    out = g.op("MatMul", weights, values)
    return g.reshape(out, [0, heads, length, g.shape(v)[3]]) if heads != kv else out


def _rows(g: Graph, q: int, groups: int) -> Int:
    from rushlight.core.onnx.export.integers import combined

    length = _size(g, q, 2)
    return length * groups if isinstance(length, int) else combined("Mul", length, groups)


def _with_sinks(g: Graph, s: Step, scores: str, sinks: str, q: int, length: Int, count: Int) -> str:
    """The softmax with a key more, which has no value."""
    shape = g.ints([_size(g, q, 0), g.shape(q)[1], length, 1])
    more = g.op("Concat", scores, g.op("Expand", sinks, shape), axis=-1)
    return g.slice(g.op("Softmax", more, axis=-1), 3, 0, count)
