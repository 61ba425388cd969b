"""Reductions, sorting and cumulative sums as nodes."""

from __future__ import annotations

import numpy as np

from rushlight.core.onnx.export.graph import BOOL, INT64, Emit, Graph, emits
from rushlight.core.onnx.export.joining import Step
from rushlight.core.onnx.export.nodes.elementwise import number_of
from rushlight.core.onnx.export.nodes.movement import first


def reduce(g: Graph, op: str, name: str, dims: tuple[int, ...], keep: bool) -> str:
    """A reduction; its axes are an input, or an attribute of older opsets."""
    if not dims:
        return name
    if op == "ReduceSum" or g.opset >= 18:
        return g.op(op, name, g.constant(np.array(dims, np.int64)), keepdims=int(keep))
    return g.op(op, name, axes=list(dims), keepdims=int(keep))


@emits("sum")
def sum_(g: Graph, s: Step) -> str:
    """ReduceSum."""
    return reduce(g, "ReduceSum", g.get(first(s)), s.attrs["dim"], s.attrs["keepdim"])


def _extreme(name: str) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        number = number_of(g.dtype(first(s)))
        small = g.dtype(first(s)).itemsize < 4 and g.dtype(first(s)).kind in "bui"
        wide = 6 if small else number
        x = g.cast(g.get(first(s)), number, wide)
        return g.cast(reduce(g, name, x, s.attrs["dim"], s.attrs["keepdim"]), wide, number)

    return emit


emits("amax", exact=True)(_extreme("ReduceMax"))
emits("amin", exact=True)(_extreme("ReduceMin"))


def _truth(every: bool) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        # How many are true, or false: right for no elements too.
        truth = g.cast(g.get(first(s)), number_of(g.dtype(first(s))), BOOL)
        hits = g.cast(g.op("Not", truth) if every else truth, BOOL, INT64)
        count = reduce(g, "ReduceSum", hits, s.attrs["dim"], s.attrs["keepdim"])
        zero = g.constant(np.int64(0))
        return g.op("Equal", count, zero) if every else g.op("Greater", count, zero)

    return emit


emits("any", exact=True)(_truth(False))
emits("all", exact=True)(_truth(True))


def _orderable(g: Graph, s: Step) -> str:
    """The operand in a dtype that ArgMax and TopK take."""
    dtype = g.dtype(first(s))
    small = dtype.kind in "bui" and dtype.name not in ("int32", "int64")
    return g.cast(g.get(first(s)), number_of(dtype), INT64 if small else number_of(dtype))


def _arg(name: str) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        dim, keep = s.attrs["dim"], int(s.attrs["keepdim"])
        return g.op(name, _orderable(g, s), axis=dim, keepdims=keep)

    return emit


emits("argmax", exact=True)(_arg("ArgMax"))
emits("argmin", exact=True)(_arg("ArgMin"))


@emits("topk", exact=True)
def topk(g: Graph, s: Step) -> str:
    """The indices of TopK."""
    a = s.attrs
    inputs = (_orderable(g, s), g.number(a["k"]))
    return g.several("TopK", inputs, 2, axis=a["dim"], largest=int(a["largest"]), sorted=1)[1]


@emits("argsort", exact=True)
def argsort(g: Graph, s: Step) -> str:
    """The indices of TopK of all elements; equal ones keep their order."""
    from rushlight.core.onnx.export.integers import Dim

    value, dim = first(s), s.attrs["dim"]
    count = g.shape(value)[dim] if g.joined.is_fixed(value) else Dim(value, dim)
    inputs, largest = (_orderable(g, s), g.number(count)), int(s.attrs["descending"])
    return g.several("TopK", inputs, 2, axis=dim, largest=largest, sorted=1)[1]


@emits("cumsum")
def cumsum(g: Graph, s: Step) -> str:
    """CumSum."""
    return g.op("CumSum", g.get(first(s)), g.constant(np.int64(s.attrs["dim"])))
