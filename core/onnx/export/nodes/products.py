"""Matrix products, linear layers and convolutions as nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.onnx.export.graph import INT64, Graph, emits
from rushlight.core.onnx.export.integers import Dim, Int, combined
from rushlight.core.onnx.export.joining import Step
from rushlight.core.onnx.export.nodes.elementwise import number_of
from rushlight.core.onnx.export.nodes.movement import first, size_at
from rushlight.core.onnx.export.nodes.reductions import reduce
from rushlight.core.onnx.export.recording import array_of


@emits("matmul")
def matmul(g: Graph, s: Step) -> str:
    """MatMul, which broadcasts batches; of small integers in int32, of booleans in int64."""
    a, b = (v for v in s.inputs if v is not None)
    names = _broadcast(g, s, a, b)
    dtype = g.dtype(s.out)
    if dtype.kind in "bui" and dtype.name not in ("int32", "int64", "uint32", "uint64"):
        number = number_of(dtype)
        wide = [g.cast(n, number, 6) for n in names]
        return g.cast(g.op("MatMul", *wide), 6, number)
    return g.op("MatMul", *names)


def _broadcast(g: Graph, s: Step, a: int, b: int) -> list[str]:
    """The operands without expansions of batch dims that MatMul does by itself."""
    plain = [a, b]
    for i, v in enumerate(plain):
        while v in g.expanded:
            v = g.expanded[v]
        plain[i] = v
    for t, want in enumerate(g.joined.shapes[s.out]):
        shapes = [g.joined.shapes[v][t] for v in plain]
        wide = [g.joined.shapes[v][t] for v in (a, b)]
        kept = all(x[-2:] == y[-2:] and len(x) > 1 for x, y in zip(shapes, wide, strict=True))
        try:
            fits = kept and np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]) == want[:-2]
        except ValueError:
            fits = False
        if not fits:
            return [g.get(a), g.get(b)]
    return [g.get(v) for v in plain]


def product_with(g: Graph, x: str, rank: int, weight: str, bias: str) -> str:
    """x weight^T + bias."""
    if rank == 2:
        return g.op("Gemm", x, weight, *([bias] if bias else []), transB=1)
    out = g.op("MatMul", x, g.op("Transpose", weight, perm=[1, 0]))
    return g.op("Add", out, bias) if bias else out


@emits("linear")
def linear(g: Graph, s: Step) -> str:
    """Gemm for two dims, else MatMul with the transposed weight, and Add."""
    x, weight, bias = s.inputs
    assert x is not None and weight is not None
    tensor = g.joined.values[weight].tensor
    if g.dtype(weight).kind == "q" and tensor is not None:
        from rushlight.core.onnx.export.nodes.quantized import product

        return product(g, s, x, weight, tensor, g.get(bias))
    return product_with(g, g.get(x), g.rank(x), g.get(weight), g.get(bias))


@emits("linear_t")
def linear_t(g: Graph, s: Step) -> str:
    """MatMul."""
    return g.op("MatMul", g.get(first(s)), g.get(s.inputs[1]))


@emits("linear_experts")
def linear_experts(g: Graph, s: Step) -> str:
    """MatMul with the weight of each row's expert, which Gather takes out."""
    x, weight, index, bias = s.inputs
    assert x is not None and weight is not None and index is not None
    at = g.get(index)
    if number_of(g.dtype(index)) not in (6, INT64):
        at = g.op("Cast", at, to=INT64)
    rows = g.op("Gather", g.get(weight), at, axis=0)  # (..., n, k)
    column = g.axes("Unsqueeze", g.get(x), g.rank(x))
    out = g.axes("Squeeze", g.op("MatMul", rows, column), g.rank(x))
    if bias is None:
        return out
    return g.op("Add", out, g.op("Gather", g.get(bias), at, axis=0))


@emits("linear_experts_t")
def linear_experts_t(g: Graph, s: Step) -> str:
    """MatMul of each row with the weight of its expert, which Gather takes out."""
    x, weight, index = s.inputs[:3]
    assert x is not None and weight is not None and index is not None
    at = g.get(index)
    if number_of(g.dtype(index)) not in (6, INT64):
        at = g.op("Cast", at, to=INT64)
    rows = g.op("Gather", g.get(weight), at, axis=0)  # (..., n, k)
    line = g.axes("Unsqueeze", g.get(x), g.rank(x) - 1)
    return g.axes("Squeeze", g.op("MatMul", line, rows), g.rank(x) - 1)


def _pads(padding: Sequence[int]) -> list[int]:
    return [*padding, *padding]


@emits("conv2d")
def conv2d(g: Graph, s: Step) -> str:
    """Conv."""
    x, weight, bias = s.inputs
    a = s.attrs
    inputs = [g.get(x), g.get(weight), *([] if bias is None else [g.get(bias)])]
    options: dict[str, Any] = {
        "strides": list(a["stride"]),
        "pads": _pads(a["padding"]),
        "dilations": list(a["dilation"]),
        "group": a["groups"],
    }
    assert weight is not None
    if g.joined.is_fixed(weight):
        options["kernel_shape"] = list(g.shape(weight)[2:])
    return g.op("Conv", *inputs, **options)


@emits("conv2d_input")
def conv2d_input(g: Graph, s: Step) -> str:
    """ConvTranspose; its output padding is what remains of the size."""
    x, weight = s.inputs
    assert x is not None and weight is not None
    a, more = s.attrs, []
    for axis in range(2):
        rests = {
            out[2 + axis]
            - (
                (have[2 + axis] - 1) * a["stride"][axis]
                - 2 * a["padding"][axis]
                + a["dilation"][axis] * (w[2 + axis] - 1)
                + 1
            )
            for have, w, out in zip(
                g.joined.shapes[x], g.joined.shapes[weight], g.joined.shapes[s.out], strict=True
            )
        }
        if len(rests) > 1:
            raise g.fail(s, "has an output size that does not follow from that of its input")
        more.append(rests.pop())
    options: dict[str, Any] = {
        "strides": list(a["stride"]),
        "pads": _pads(a["padding"]),
        "dilations": list(a["dilation"]),
        "group": a["groups"],
        "kernel_shape": list(g.shape(weight)[2:]),
    }
    if any(more):
        options["output_padding"] = more
    return g.op("ConvTranspose", g.get(x), g.get(weight), **options)


@emits("window_max", exact=True)
def window_max(g: Graph, s: Step) -> str:
    """MaxPool over (n, 1, d, h, w)."""
    return _pooled(g, s)[0]


@emits("window_argmax", exact=True)
def window_argmax(g: Graph, s: Step) -> str:
    """The indices of MaxPool, within each row of the batch."""
    value = first(s)
    places = _pooled(g, s, 2)[1]
    sizes: list[Int] = [
        g.shape(value)[d] if len({sh[d] for sh in g.joined.shapes[value]}) == 1 else Dim(value, d)
        for d in (1, 2, 3)
    ]
    room = combined("Mul", combined("Mul", sizes[0], sizes[1]), sizes[2])
    if all(isinstance(n, int) for n in sizes):
        room = int(np.prod([n for n in sizes if isinstance(n, int)]))
    return g.op("Mod", places, g.number(room, scalar=True))


def _pooled(g: Graph, s: Step, outputs: int = 1) -> list[str]:
    a, value = s.attrs, first(s)
    kernel, stride = list(a["kernel"]), list(a["stride"])
    padding, dilation = list(a["padding"]), list(a["dilation"])
    # The end is padded so far that no window is cut, or the operator rounds up.
    chosen = None
    for ceil in (0, 1):
        ends = set()
        for have, out in zip(g.joined.shapes[value], g.joined.shapes[s.out], strict=True):
            need = []
            for d in range(3):
                reach = dilation[d] * (kernel[d] - 1) + 1
                if ceil:
                    room = have[1 + d] + 2 * padding[d] - reach
                    need.append(padding[d] if -(-room // stride[d]) + 1 == out[1 + d] else -1)
                else:
                    last = (out[1 + d] - 1) * stride[d] + reach - have[1 + d] - padding[d]
                    room = have[1 + d] + 2 * padding[d] - reach
                    plain = room // stride[d] + 1 == out[1 + d]
                    need.append(padding[d] if plain else max(last, 0))
            ends.add(tuple(need))
        if len(ends) == 1 and min(next(iter(ends))) >= 0:
            chosen = (ceil, list(ends.pop()))
            break
    if chosen is None:
        raise g.fail(s, "has a number of windows that does not follow from the size")
    ceil, after = chosen
    dtype = g.dtype(value)
    x = g.axes("Unsqueeze", g.get(value), 1)
    wide = number_of(dtype)
    if dtype.kind != "f":
        x = g.op("Cast", x, to=11)
    names = g.several(
        "MaxPool",
        (x,),
        outputs,
        kernel_shape=kernel,
        strides=stride,
        pads=[*padding, *after],
        dilations=dilation,
        ceil_mode=ceil,
    )
    result = [g.axes("Squeeze", n, 1) for n in names]
    if dtype.kind != "f":
        result[0] = g.op("Cast", result[0], to=wide)
    return result


@emits("resample")
def resample(g: Graph, s: Step) -> str:
    """Gather of the elements, times their weights, summed."""
    value, places, weight = s.inputs[:3]
    assert value is not None
    at, bits = g.array(places), g.array(weight)
    if at is None or bits is None:
        return _windows(g, s)
    dim, rank = s.attrs["dim"], g.rank(value)
    real = bits.view(np.float32 if bits.dtype.itemsize == 4 else np.float64)
    real = np.where(at < 0, 0, real)
    picked = g.op("Gather", g.get(value), g.constant(np.maximum(at, 0)), axis=dim)
    shape = [1] * dim + list(at.shape) + [1] * (rank - dim - 1)
    factor = g.constant(real.reshape(shape), g.dtype(value))
    return reduce(g, "ReduceSum", g.op("Mul", picked, factor), (dim + 1,), False)


def _windows(g: Graph, s: Step) -> str:
    """Sums over windows at equal steps, as a mean pool's without padding, along a free size."""
    value, places, weight = s.inputs[:3]
    assert value is not None and places is not None and weight is not None
    error = g.fail(s, "has a table that depends on a free size; leave that size fixed")
    tables: list[tuple[Any, Any]] = []
    for trace in g.joined.traces:
        held = trace.values[places].tensor, trace.values[weight].tensor
        if held[0] is None or held[1] is None or held[0].device.type == "meta":
            raise error
        tables.append((array_of(held[0]), array_of(held[1])))
    first_at, first_bits = tables[0]
    step = int(first_at[1, 0] - first_at[0, 0]) if len(first_at) > 1 else 1
    row, weights = first_at[0], first_bits[0]
    for at, bits in tables:
        ladder = np.arange(len(at))[:, None] * step + row
        if at.shape != ladder.shape or (at != ladder).any() or (bits != weights).any():
            raise error
    dim, rank = s.attrs["dim"], g.rank(value)
    count = combined("Add", combined("Div", combined("Sub", size_at(g, value, dim),
                     int(row[-1]) + 1), step), 1)  # fmt: skip
    starts = g.axes("Unsqueeze", g.range(0, step, count), 1)
    index = g.op("Add", starts, g.constant(row.reshape(1, -1).astype(np.int64)))
    picked = g.op("Gather", g.get(value), index, axis=dim)
    real = weights.view(np.float32 if weights.dtype.itemsize == 4 else np.float64)
    shape = [1] * (dim + 1) + [len(real)] + [1] * (rank - dim - 1)
    factor = g.constant(real.reshape(shape), g.dtype(value))
    return reduce(g, "ReduceSum", g.op("Mul", picked, factor), (dim + 1,), False)


@emits("det")
def det(g: Graph, s: Step) -> str:
    """Det."""
    return g.op("Det", g.get(first(s)))
