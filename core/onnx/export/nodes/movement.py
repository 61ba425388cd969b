"""Views, joins, pads and new tensors as nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.onnx.element_types import of_dtype
from rushlight.core.onnx.export.graph import FLOAT, INT64, Graph, carried, emits
from rushlight.core.onnx.export.integers import Combined, Dim, Int, Real, combined, evaluate
from rushlight.core.onnx.export.joining import Step, constant_int
from rushlight.core.onnx.export.nodes.elementwise import number_of

_FAR = 2**31 - 1


def first(s: Step) -> int:
    """The first operand."""
    value = s.inputs[0]
    assert value is not None
    return value


def size_at(g: Graph, value: int, dim: int) -> Int:
    """The size of a dim: a number where it is the same in all traces."""
    fixed = len({shape[dim] for shape in g.joined.shapes[value]}) == 1
    return g.shape(value)[dim] if fixed else Dim(value, dim)


@emits("permute", exact=True)
def permute(g: Graph, s: Step) -> str:
    """Transpose."""
    dims = list(s.attrs["dims"])
    if dims == sorted(dims):
        return g.get(first(s))
    return g.op("Transpose", g.get(first(s)), perm=dims)


@emits("expand", exact=True)
def expand(g: Graph, s: Step) -> str:
    """Nothing, until it is needed: most operators broadcast."""
    g.expanded[s.out] = first(s)
    return ""


def _copied(g: Graph, value: int, axis: int, e: Int, fixed: int) -> bool:
    """Whether a new dim `axis` is the one of `value` at that place, whatever the sizes."""
    if axis >= g.rank(value):
        return False
    if e == Dim(value, axis):
        return True
    shapes = g.joined.shapes
    return not isinstance(e, int) and all(
        a[axis] == b[axis] for a, b in zip(shapes[value], shapes[fixed], strict=True)
    )


@emits("view", exact=True)
def view(g: Graph, s: Step) -> str:
    """Reshape, by 0 for a dim that stays, -1 for the one that is not known, else by sizes."""
    shape: list[Int] = list(s.attrs["shape"])
    source = first(s)
    if g.joined.shapes[source] == g.joined.shapes[s.out]:
        return g.get(source)
    if 0 in shape:  # a 0 that is no copy
        return g.op("Reshape", g.get(source), g.ints(shape), allowzero=1)
    free = [i for i, e in enumerate(shape) if not isinstance(e, int)]
    for axis in free:
        if _copied(g, source, axis, shape[axis], s.out):
            shape[axis] = 0
    rest = [i for i in free if shape[i] != 0]
    if len(rest) == 1 and 0 not in g.shape(s.out):
        shape[rest[0]] = -1
    return g.reshape(g.get(source), shape)


def sliced(g: Graph, name: str, ranges: Sequence[Any], sizes: Any) -> str:
    """Slice by (start, stop, step) of each dim; sizes(dim, stop): whether it ends there."""
    starts, stops, axes, steps = [], [], [], []
    for axis, (start, stop, step) in enumerate(ranges):
        whole = start == 0 and step == 1 and sizes(axis, stop)
        if whole:
            continue
        starts.append(start)
        stops.append(stop)
        axes.append(axis)
        steps.append(step)
    if not axes:
        return name
    rest = [] if all(n == 1 for n in steps) else [g.ints(steps)]
    return g.op("Slice", name, g.ints(starts), g.ints(stops), g.ints(axes), *rest)


def _ends(g: Graph, value: int) -> Any:
    """Whether a stop is the size of a dim, in every trace."""

    def whole(axis: int, stop: Int) -> bool:
        shapes = g.joined.shapes
        count = len(shapes[value])
        return all(
            evaluate(stop, _Shapes(shapes, i)) == shapes[value][i][axis] for i in range(count)
        )

    return whole


class _Shapes(Sequence[Sequence[int]]):
    """The shapes of all values in one trace."""

    def __init__(self, shapes: Any, trace: int) -> None:
        self.shapes, self.trace = shapes, trace

    def __getitem__(self, value: Any) -> Any:
        return self.shapes[value][self.trace]

    def __len__(self) -> int:
        return len(self.shapes)


@emits("slice", exact=True)
def slice_(g: Graph, s: Step) -> str:
    """Slice."""
    value = first(s)
    return sliced(g, g.get(value), s.attrs["ranges"], _ends(g, value))


@emits("index", exact=True)
def index(g: Graph, s: Step) -> str:
    """Slice of the ranges, Gather or Squeeze of the dims that are removed."""
    value = first(s)
    key = s.attrs["key"]
    if value in g.cells:
        return _of_cell(g, s, key)
    removed = [axis for axis, k in enumerate(key) if not isinstance(k, tuple)]
    ranges = [k if isinstance(k, tuple) else (0, Dim(value, axis), 1) for axis, k in enumerate(key)]
    whole = _ends(g, value)
    name = sliced(g, g.get(value), ranges, whole)
    for axis in reversed(removed):
        name = g.op("Gather", name, g.number(key[axis], scalar=True), axis=axis)
    return name


def _of_cell(g: Graph, s: Step, key: Sequence[Any]) -> str:
    """Part of what a recurrent cell keeps: all hidden states, or the last cell state."""
    value = first(s)
    states = g.cells[value]
    if key[0] == 0:
        name, rest = states[(0,)], key[1:]
    else:
        back = (1, 0) in states
        ends = back or (1, -1) in states
        places = [sh[1] - 1 for sh in g.joined.shapes[value]]
        at = None if len(key) < 2 else key[1]
        shapes = g.joined.shapes
        told = [] if not ends or at is None or isinstance(at, tuple) else [
            evaluate(at, _Shapes(shapes, i)) for i in range(len(places))
        ]  # fmt: skip
        if key[0] == 1 and ends and told == ([0] * len(places) if back else places):
            name, rest = states[(1, 0 if back else -1)], key[2:]
        elif key[0] == 1 and (1,) in states:
            name, rest = states[(1,)], key[1:]
        else:
            raise g.fail(s, "reads gates of a recurrent cell, which its operator does not give")
    whole, skipped = _ends(g, value), len(key) - len(rest)
    ranges = [k if isinstance(k, tuple) else (0, Dim(value, skipped + i), 1)
              for i, k in enumerate(rest)]  # fmt: skip
    name = sliced(g, name, ranges, lambda axis, stop: whole(skipped + axis, stop))
    for axis in reversed([i for i, k in enumerate(rest) if not isinstance(k, tuple)]):
        name = g.op("Gather", name, g.number(rest[axis], scalar=True), axis=axis)
    return name


@emits("as_strided", exact=True)
def as_strided(g: Graph, s: Step) -> str:
    """Gather of the flat elements at places that are known."""
    value = first(s)
    shape, strides = s.attrs["shape"], s.attrs["strides"]
    numbers = [constant_int(s, "its layout", n) for n in (*shape, *strides, s.attrs["offset"])]
    rank = len(shape)
    places = np.full((1,) * rank, numbers[-1], np.int64)
    for axis in range(rank):
        ladder = np.arange(numbers[axis]) * numbers[rank + axis]
        places = places + ladder.reshape([-1 if d == axis else 1 for d in range(rank)])
    return g.op("Gather", g.reshape(g.get(value), [-1]), g.constant(places), axis=0)


@emits("positions", exact=True)
def positions(g: Graph, s: Step) -> str:
    """The flat position of each element, in the shape of the operand."""
    value = first(s)
    if g.joined.is_fixed(value):
        shape = g.shape(value)
        return g.constant(np.arange(math.prod(shape)).reshape(shape))
    shape_name = g.op("Shape", g.get(value))
    count = g.op("ReduceProd", shape_name, keepdims=0)
    zero, one = g.constant(np.int64(0)), g.constant(np.int64(1))
    return g.op("Reshape", g.op("Range", zero, count, one), shape_name)


@emits("unfold", exact=True)
def unfold(g: Graph, s: Step) -> str:
    """Gather by a table of places, whose last dim moves to the end."""
    value, a = first(s), s.attrs
    dim, rank = a["dim"], g.rank(value)
    size, step = constant_int(s, "size", a["size"]), constant_int(s, "step", a["step"])
    dilation = constant_int(s, "dilation", a["dilation"])
    within = g.constant((np.arange(size) * dilation).reshape(1, size))
    if g.joined.is_fixed(s.out):
        count = g.shape(s.out)[dim]
        places = g.constant(np.arange(count)[:, None] * step + np.arange(size) * dilation)
    else:
        reach = (size - 1) * dilation + 1 - step
        total = combined("Div", combined("Sub", Dim(value, dim), reach), step)
        starts = g.axes("Unsqueeze", g.range(0, step, total), 1)
        places = g.op("Add", starts, within)
    name = g.op("Gather", g.get(value), places, axis=dim)
    order = [*range(dim + 1), *range(dim + 2, rank + 1), dim + 1]
    return name if order == sorted(order) else g.op("Transpose", name, perm=order)


@emits("flip", exact=True)
def flip(g: Graph, s: Step) -> str:
    """Slice backwards."""
    dims = list(s.attrs["dims"])
    name = g.get(first(s))
    if not dims:
        return name
    n = len(dims)
    backwards = g.ints([-1] * n)
    return g.op("Slice", name, backwards, g.ints([-_FAR] * n), g.ints(dims), backwards)


@emits("pad", exact=True)
def pad(g: Graph, s: Step) -> str:
    """Pad; of small types after a cast."""
    pads = s.attrs["pads"]
    if not pads:
        return g.get(first(s))
    dtype = g.dtype(s.out)
    amounts = g.ints([p[0] for p in pads] + [p[1] for p in pads])
    name, number = g.get(first(s)), number_of(dtype)
    fill = np.array(s.attrs["value"])
    if dtype.kind == "b" or dtype.itemsize < 4 and dtype.kind in "ui":
        padded = g.op("Pad", g.cast(name, number, 6), amounts, g.constant(fill.astype(np.int32)))
        return g.cast(padded, 6, number)
    return g.op("Pad", name, amounts, g.constant(fill, dtype))


@emits("slice_backward", exact=True)
def slice_backward(g: Graph, s: Step) -> str:
    """Pad around a region whose steps are 1."""
    if any(r[2] != 1 for r in s.attrs["ranges"]):
        return _spread(g, s)
    pairs = list(zip(s.attrs["ranges"], s.attrs["shape"], strict=True))
    before = [r[0] for r, _ in pairs]
    after = [combined("Sub", size, r[1]) if not (isinstance(size, int) and isinstance(r[1], int))
             else size - r[1] for r, size in pairs]  # fmt: skip
    fill = g.constant(np.array(0), g.dtype(s.out))
    return g.op("Pad", g.get(first(s)), g.ints([*before, *after]), fill)


def _spread(g: Graph, s: Step) -> str:
    """Elements put at steps into zeros, by their flat places."""
    if not g.joined.is_fixed(s.out):
        raise g.fail(s, "puts elements at steps into a tensor of a free size")
    shape = g.shape(s.out)
    region = tuple(slice(*r) for r in s.attrs["ranges"])
    places = np.arange(math.prod(shape)).reshape(shape)[region].reshape(-1)
    zeros = g.constant(np.zeros(math.prod(shape)), g.dtype(s.out))
    flat = g.reshape(g.get(first(s)), [-1])
    return g.reshape(g.op("ScatterElements", zeros, g.constant(places), flat, axis=0), shape)


@emits("unfold_backward")
def unfold_backward(g: Graph, s: Step) -> str:
    """Windows summed where they lie: ScatterElements that adds."""
    value, a = first(s), s.attrs
    if not g.joined.is_fixed(value) or not g.joined.is_fixed(s.out) or g.opset < 16:
        raise g.fail(s, "sums windows of a free size, or needs opset 16 or more")
    dim, rank = a["dim"], g.rank(value)
    count, size = g.shape(value)[dim], a["size"]
    order = [*range(dim + 1), rank - 1, *range(dim + 1, rank - 1)]
    x = g.op("Transpose", g.get(value), perm=order)
    shape = list(g.shape(s.out))
    flat = [*shape[:dim], count * size, *shape[dim + 1 :]]
    x = g.op("Reshape", x, g.ints(flat), allowzero=1)
    places = np.arange(count)[:, None] * a["step"] + np.arange(size) * a["dilation"]
    column = places.reshape([-1 if d == dim else 1 for d in range(len(flat))])
    index = g.constant(np.broadcast_to(column, flat))
    zeros = g.constant(np.zeros(shape), g.dtype(s.out))
    return g.op("ScatterElements", zeros, index, x, axis=dim, reduction="add")


@emits("cat", exact=True)
def cat(g: Graph, s: Step) -> str:
    """Concat."""
    return g.op("Concat", *(g.get(v) for v in s.inputs), axis=s.attrs["dim"])


@emits("full", exact=True)
def full(g: Graph, s: Step) -> str:
    """ConstantOfShape."""
    dtype, shape, told = g.dtype(s.out), s.attrs["shape"], s.attrs["value"]
    if isinstance(told, Real | Dim | Combined):
        kind = number_of(dtype)
        one = g.real(told, dtype) if isinstance(told, Real) else g.cast(g.number(told), INT64, kind)
        return g.op("Expand", one, g.ints(shape)) if shape else g.reshape(one, [])
    value = np.array(s.attrs["value"]).astype(carried(dtype).numpy)
    if all(isinstance(n, int) for n in shape) and math.prod(shape) <= 1:
        return g.constant(np.full(shape, value))
    from rushlight.core.onnx.export import writing

    body = writing.tensor("", of_dtype(carried(dtype)).number, [1], value.reshape(1).tobytes())
    return g.op("ConstantOfShape", g.ints(shape), value=("tensor", body))


@emits("arange")
def arange(g: Graph, s: Step) -> str:
    """Range, times the step, and the start."""
    start, step, count = s.attrs["start"], s.attrs["step"], s.attrs["count"]
    dtype = g.dtype(s.out)
    if isinstance(start, float) or isinstance(step, float):
        kind = FLOAT if carried(dtype).name == "float32" else 11
        places = g.cast(g.range(0, 1, count), INT64, kind)
        scaled = g.op("Mul", places, g.constant(np.array(step), dtype))
        first_one = start if isinstance(start, int | float) else None
        if first_one is None:
            raise g.fail(s, "begins at a free size with a fractional step")
        return g.op("Add", scaled, g.constant(np.array(first_one), dtype))
    return g.cast(g.range(start, step, count), INT64, number_of(dtype))
