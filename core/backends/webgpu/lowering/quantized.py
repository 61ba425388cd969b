"""Lowerings over stored weights: copies and conversions of blocks, rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access, quads
from rushlight.core.backends.webgpu.codegen.blocks import plane_value, planes_fit
from rushlight.core.backends.webgpu.codegen.planes import planes_of
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, fill, grid, view
from rushlight.core.backends.webgpu.lowering import creation, map
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose, text


def copy(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Copy bits; blocks are copied plane by plane."""
    x = inputs[0]
    assert x is not None
    if x.dtype.kind != "q":
        map.move(e, x, out)
        return
    for k in range(len(planes_of(x.dtype))):
        # The end of a plane is its own: what is written beyond the last scale hits nothing.
        map.move(e, plane_value(x, k, x.layout), plane_value(out, k, out.layout))


def _parts(e: Emitter, x: Operand, out: Operand) -> Iterator[tuple[Layout, Layout]]:
    """Boxes of blocks and of the contiguous result that can be bound."""
    todo = [(x.layout, out.layout)]
    while todo:
        source, target = todo.pop()
        if planes_fit(e, x, source) and e.fits(out, target):
            yield source, target
            continue
        dim = next((d for d, n in enumerate(source.shape) if n > 1), 0)
        size, step = source.shape[dim], x.dtype.block if dim == source.ndim - 1 else 1
        half = max(size // 2 // step, 1) * step
        for start, stop in ((half, size), (0, half)):
            todo.append((source.slice(dim, start, stop), target.slice(dim, start, stop)))


@cache
def _cast_kernel(dtype: DType, out: DType) -> Kernel:
    count = quads.bindings_of(dtype)
    per = access.per_word(out)
    store = {1: "vec4<u32>", 2: "vec2<u32>", 4: "u32"}[per]
    codes = [f"encode(v[{i}])" for i in range(4)]
    words = [
        " | ".join(f"({codes[w * per + i]} << {32 // per * i}u)" for i in range(per))
        for w in range(4 // per)
    ]
    encode = access.writer(count, out).split("\n", 1)[1]
    lines = [
        *quads.lines("x", 0, dtype, True, False),
        f"@group(0) @binding({count}) var<storage, read_write> out_quads: array<{store}>;",
        encode,
        f"fn put(at: u32, v: vec4<f32>) {{ out_quads[at >> 2u] = {store}({', '.join(words)}); }}",
    ]
    label = quads.label("blocks_cast", dtype)
    return Kernel(compose("blocks_cast", *lines), "r" * count + "w", label)


def cast(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Convert dtypes; blocks become floats."""
    x = inputs[0]
    assert x is not None
    if x.dtype.kind != "q":
        creation.cast(e, inputs, out, attrs)
        return
    for source, target in _parts(e, x, out):
        sizes, (steps,) = e.walk(source.shape[:-1], [source.strides[:-1]])
        slices, start, shifts = quads.bind(e, x, source)
        (to,), offset, _ = quads.bind(e, out, target)
        parameters = [0] * 51
        count = source.numel // 4
        parameters[0:5] = [count, offset, start, source.shape[-1] // 4, len(sizes)]
        fill(parameters, 16, sizes, steps)
        parameters[48 : 48 + len(shifts)] = shifts
        groups = grid(-(-count // 64))
        e.dispatch(_cast_kernel(x.dtype, out.dtype), [*slices, to], parameters, groups)


@cache
def _embedding_kernel(table: DType, index: DType, out: DType) -> Kernel:
    count = quads.bindings_of(table)
    if table.kind == "q":
        lines = [*quads.lines("table", 0, table, True, False)]
    else:
        lines = [access.reader("table", 0, table)]
    lines += [
        access.reader("index", count, index),
        access.writer(count + 1, out),
        access.status(count + 2),
    ]
    letters = "r" * (count + 1) + "ww"
    if table.kind == "q":
        label = quads.label("embedding_blocks", table)
        return Kernel(compose("embedding_blocks", *lines), letters, label)
    lines.append(access.in_place_reader("out", out))
    return Kernel(compose("map", *lines, text("embedding")), letters, "embedding")


def table_pieces(e: Emitter, table: Operand, layout: Layout) -> Iterator[tuple[int, int]]:
    """Ranges of the first dim of a table, from the first on, that can be bound."""
    todo = [(0, layout.shape[0])]
    while todo:
        start, stop = todo.pop()
        rows = layout.slice(0, start, stop)
        blocks = table.dtype.kind == "q"
        fits = planes_fit(e, table, rows) if blocks else e.fits(table, rows)
        if fits or stop - start <= 1:
            yield start, stop
        else:
            half = (start + stop) // 2
            todo += [(half, stop), (start, half)]


def embedding(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Rows of a table of any storage dtype; blocks become float32."""
    table, index = inputs
    assert table is not None and index is not None
    width = table.layout.shape[1]
    result: Operand = out
    if table.dtype.kind != "q":  # bits that move
        bits = access.as_bits(table.dtype)
        table, result = view(table, table.layout, bits), view(out, out.layout, bits)
    sizes, (steps,) = e.walk(index.layout.shape, [index.layout.strides])
    for start, stop in table_pieces(e, table, table.layout):
        rows = table.layout.slice(0, start, stop)
        slices, begin, shifts = quads.bind(e, table, rows)
        named, first = e.bind(index)
        to, offset = e.bind(result)
        parameters = [0] * 51
        parameters[0:12] = [
            out.layout.numel, offset, width, first, begin, *rows.strides, table.layout.shape[0],
            len(sizes), start, stop, e.status.code(e.op, "index"),
        ]  # fmt: skip
        fill(parameters, 16, sizes, steps)
        parameters[48 : 48 + len(shifts)] = shifts
        each = 4 if table.dtype.kind == "q" else access.per_word(result.dtype)
        words = -(-out.layout.numel // each)
        e.dispatch(
            _embedding_kernel(table.dtype, index.dtype, result.dtype),
            [*slices, named, to, e.status.slice()],
            parameters,
            grid(-(-words // 64)),
        )


LOWERINGS = {"copy": copy, "cast": cast, "embedding": embedding}
