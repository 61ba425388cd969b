"""Gathering, scattering and writes as nodes."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core.onnx.export.graph import INT64, Emit, Graph, emits
from rushlight.core.onnx.export.integers import Dim
from rushlight.core.onnx.export.joining import Step
from rushlight.core.onnx.export.nodes.elementwise import number_of
from rushlight.core.onnx.export.nodes.movement import _ends, first


def _index(g: Graph, value: int | None) -> str:
    assert value is not None
    number = number_of(g.dtype(value))
    return g.cast(g.get(value), number, INT64) if number != 6 else g.get(value)


@emits("gather", exact=True)
def gather(g: Graph, s: Step) -> str:
    """GatherElements."""
    return g.op("GatherElements", g.get(first(s)), _index(g, s.inputs[1]), axis=s.attrs["dim"])


def _scatter(reduction: str | None) -> Emit:
    def emit(g: Graph, s: Step) -> str:
        if reduction is not None and g.opset < 16:
            raise g.fail(s, "needs opset 16 or more")
        names = g.get(first(s)), _index(g, s.inputs[1]), g.get(s.inputs[2])
        return g.op("ScatterElements", *names, axis=s.attrs["dim"], reduction=reduction)

    return emit


emits("scatter", exact=True)(_scatter(None))
emits("scatter_add")(_scatter("add"))


@emits("index_select", exact=True)
def index_select(g: Graph, s: Step) -> str:
    """Gather."""
    return g.op("Gather", g.get(first(s)), _index(g, s.inputs[1]), axis=s.attrs["dim"])


@emits("index_add")
def index_add(g: Graph, s: Step) -> str:
    """ScatterElements that adds, the index repeated over the other dims."""
    if g.opset < 16:
        raise g.fail(s, "needs opset 16 or more")
    dim, source = s.attrs["dim"], s.inputs[2]
    assert source is not None
    rank = g.rank(source)
    column = g.reshape(_index(g, s.inputs[1]), [-1 if d == dim else 1 for d in range(rank)])
    places = g.op("Expand", column, g.op("Shape", g.get(source)))
    names = g.get(first(s)), places, g.get(source)
    return g.op("ScatterElements", *names, axis=dim, reduction="add")


@emits("embedding", exact=True)
def embedding(g: Graph, s: Step) -> str:
    """Gather of rows; of quantized weights the rows' blocks, which are unpacked then."""
    value = first(s)
    tensor = g.joined.values[value].tensor
    if g.dtype(value).kind == "q" and tensor is not None:
        from rushlight.core.onnx.export.nodes.quantized import rows

        return rows(g, value, tensor, _index(g, s.inputs[1]))
    return g.op("Gather", g.get(value), _index(g, s.inputs[1]), axis=0)


@emits("ravel_index", exact=True)
def ravel_index(g: Graph, s: Step) -> str:
    """The sum of index times stride; negative ones count from the end."""
    result = ""
    sizes = s.attrs["sizes"]
    for value, size in zip(s.inputs, sizes, strict=True):
        name = g.cast(_index(g, value), INT64, INT64)
        assert value is not None
        if number_of(g.dtype(value)) != INT64:
            name = g.op("Cast", name, to=INT64)
        at = g.number(size, scalar=True)
        below = g.op("Less", name, g.constant(np.int64(0)))
        name = g.op("Where", below, g.op("Add", name, at), name)
        result = name if not result else g.op("Add", g.op("Mul", result, at), name)
    return result


@emits("put", exact=True)
def put(g: Graph, s: Step) -> str:
    """ScatterElements of the flat elements."""
    value = first(s)
    flat = g.reshape(g.get(value), [-1])
    places, source = g.reshape(_index(g, s.inputs[1]), [-1]), g.reshape(g.get(s.inputs[2]), [-1])
    written = g.op("ScatterElements", flat, places, source, axis=0)
    shape = g.shape(value)
    if g.joined.is_fixed(value):
        return g.reshape(written, shape)
    return g.op("Reshape", written, g.op("Shape", g.get(value)))


@emits("assign", exact=True)
def assign(g: Graph, s: Step) -> str:
    """The value itself for all of a tensor, Concat along one dim, else ScatterElements."""
    value, source = first(s), s.inputs[1]
    assert source is not None
    ranges, whole = s.attrs["ranges"], _ends(g, value)
    parts = [
        axis
        for axis, (start, stop, step) in enumerate(ranges)
        if not (start == 0 and step == 1 and whole(axis, stop))
    ]
    if not parts:
        same = g.joined.shapes[source] == g.joined.shapes[s.out]
        name = g.get(source)
        return name if same else g.op("Reshape", name, _shape_of(g, value))
    old = g.get(value)
    if len(parts) == 1 and ranges[parts[0]][2] == 1:
        axis = parts[0]
        start, stop, _ = ranges[axis]
        region = [
            Dim(value, d) if not g.joined.is_fixed(value) else g.shape(value)[d]
            for d in range(g.rank(value))
        ]
        region[axis] = -1
        middle = g.get(source)
        if g.rank(source) != g.rank(value) or any(
            a[d] != b[d]
            for a, b in zip(g.joined.shapes[source], g.joined.shapes[value], strict=True)
            for d in range(g.rank(value))
            if d != axis
        ):
            middle = g.reshape(middle, region)
        pieces = []
        if start != 0:
            pieces.append(g.slice(old, axis, 0, start))
        pieces.append(middle)
        if not whole(axis, stop):
            pieces.append(g.slice(old, axis, stop, 2**31 - 1))
        return pieces[0] if len(pieces) == 1 else g.op("Concat", *pieces, axis=axis)
    every = g.op("Shape", old)
    if g.joined.is_fixed(value):
        count = math.prod(g.shape(value))
        places = g.constant(np.arange(count).reshape(g.shape(value)))
    else:
        zero, one = g.constant(np.int64(0)), g.constant(np.int64(1))
        total = g.op("ReduceProd", every, keepdims=0)
        places = g.op("Reshape", g.op("Range", zero, total, one), every)
    from rushlight.core.onnx.export.nodes.movement import sliced

    places = g.reshape(sliced(g, places, ranges, whole), [-1])
    flat, new = g.reshape(old, [-1]), g.reshape(g.get(source), [-1])
    return g.op("Reshape", g.op("ScatterElements", flat, places, new, axis=0), every)


def _shape_of(g: Graph, value: int) -> str:
    return g.ints(g.shape(value)) if g.joined.is_fixed(value) else g.op("Shape", g.get(value))


@emits("cache_write", exact=True)
def cache_write(g: Graph, s: Step) -> str:
    """ScatterElements along the slots of a cache, at each row's offset."""
    cache, new, offsets = g.get(first(s)), s.inputs[1], s.inputs[2]
    assert new is not None
    count = g.shape(new)[2] if g.joined.is_fixed(new) else Dim(new, 2)
    start = g.cast(_index(g, offsets), INT64, INT64)
    assert offsets is not None
    if number_of(g.dtype(offsets)) != INT64:
        start = g.op("Cast", start, to=INT64)
    ladder = g.reshape(g.range(0, 1, count), [1, 1, -1, 1])
    places = g.op("Add", g.reshape(start, [-1, 1, 1, 1]), ladder)
    places = g.op("Expand", places, g.op("Shape", g.get(new)))
    return g.op("ScatterElements", cache, places, g.get(new), axis=2)
