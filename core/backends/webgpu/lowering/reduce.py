"""Lowerings of reductions over any dims."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.compiler.autotune import up_to
from rushlight.core.backends.webgpu.emit import (
    ROUNDS,
    Attrs,
    Emitter,
    Inputs,
    fill,
    grid,
)
from rushlight.core.backends.webgpu.lowering.map import emit_map, move
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import DType, float32, int32, int64, uint32
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout, Shape
from rushlight.wgsl_kernels import compose

_GROUP = 256
# Invocations per row, the last of these where few are better.
LANES = (256, 64, 16, 4)
# Invocations that keep a GPU busy, and a CPU: rows are cut into parts to reach this number. A large
# card runs a quarter of a million at once.
_BUSY, _BUSY_CPU = 1 << 18, 1 << 14
WIDE: dict[str, DType] = {"f32": float32, "i32": int32, "u32": uint32}


class Gather(NamedTuple):
    """WGSL of one reduction: its accumulator and the expressions over it."""

    acc: str  # the type of the accumulator
    start: str
    join: str  # of a and b
    take: str  # of v, the element, and j, its number
    done: str  # of a, as the result's type
    notes: bool = False


def _gather(op: str, kind: str, dtype: DType) -> Gather:
    """The reduction `op` over elements of WGSL type `kind`."""
    zero = {"f32": "0.0", "i32": "0", "u32": "0u"}[kind]
    if op == "sum" and dtype is int64:
        return Gather(
            "vec2<u32>",
            "vec2<u32>(0u, 0u)",
            "wide_sum(a, b)",
            "vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u))",
            "kept_64(bitcast<i32>(a.x), bitcast<i32>(a.y) != bitcast<i32>(a.x) >> 31u)",
            True,
        )
    if op == "sum":
        return Gather(kind, zero, "a + b", "v", "a")
    if op in ("amax", "amin"):
        low = {"f32": "-infinity()", "i32": "-2147483647 - 1", "u32": "0u"}
        high = {"f32": "infinity()", "i32": "2147483647", "u32": "0xffffffffu"}
        name = {"amax": "max", "amin": "min"}[op]
        join = f"{name}imum_f(a, b)" if kind == "f32" else f"{name}(a, b)"
        return Gather(kind, (low if op == "amax" else high)[kind], join, "v", "a")
    if op in ("any", "all"):
        truth = "u32(not_zero(v))" if kind == "f32" else f"u32(v != {zero})"
        bit, first = ("|", "0u") if op == "any" else ("&", "1u")
        return Gather("u32", first, f"a {bit} b", truth, "a")
    key = f"key_{kind[0]}(v)"
    key = key if op == "argmax" else f"turned({key})" if kind == "f32" else f"~{key}"
    return Gather(
        "vec2<u32>",
        "vec2<u32>(0u, 0xffffffffu)",
        "better(a, b)",
        f"vec2<u32>({key}, j)",
        "bitcast<i32>(a.y)",
    )


_PACK = {
    "f32": ("vec2<u32>(bitcast<u32>(a), 0u)", "bitcast<f32>(w.x)"),
    "i32": ("vec2<u32>(bitcast<u32>(a), 0u)", "bitcast<i32>(w.x)"),
    "u32": ("vec2<u32>(a, 0u)", "w.x"),
    "vec2<u32>": ("a", "w"),
}


@cache
def _kernel(
    op: str, dtype: DType, out: DType, lanes: int, from_parts: bool, to_parts: bool, dims: int
) -> Kernel:
    kind = access.value_type(dtype)
    g = _gather(op, kind, dtype)
    pack, unpack = _PACK[g.acc]
    # Workgroup memory is only there where it is used: SwiftShader compiles it slowly.
    result = "joined_in_row(a, lane)" if lanes > 1 else "a"
    place = "walked(j, P(9u), 26u, 34u)" if dims > 1 else "j * P(34u)"
    lines = [
        f"alias acc = {g.acc};",
        f"const LANES = {lanes}u;",
        f"fn start() -> acc {{ return {g.start}; }}",
        f"fn join(a: acc, b: acc) -> acc {{ return {g.join}; }}",
        f"fn whole(a: acc, lane: u32) -> acc {{ return {result}; }}",
        f"fn inner(j: u32) -> u32 {{ return {place}; }}",
    ]
    if from_parts:
        lines.append(access.reader("x", 0, uint32))
        lines.append(
            "fn value(place: u32, j: u32) -> acc { "
            "let w = vec2<u32>(load_x(2u * place), load_x(2u * place + 1u)); "
            f"return {unpack}; }}"
        )
    else:
        lines.append(access.reader("x", 0, dtype))
        lines.append(
            f"fn value(place: u32, j: u32) -> acc {{ let v = load_x(place); return {g.take}; }}"
        )
    lines.append(access.writer(1, uint32 if to_parts else out))
    if to_parts:
        lines.append(
            f"fn finish(unit: u32, a: acc) {{ let w = {pack}; out_words[2u * unit + P(1u)] = w.x; "
            "out_words[2u * unit + P(1u) + 1u] = w.y; }"
        )
    else:
        lines.append(
            f"fn finish(unit: u32, a: acc) {{ out_words[unit + P(1u)] = encode({g.done}); }}"
        )
    notes = g.notes and not to_parts
    if notes:
        lines.append(access.status(2))
    return Kernel(compose("reduce", *lines), "rww" if notes else "rw", op)


def reduce(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """sum, amax, amin, any, all over `dim` (several), argmax and argmin over one."""
    x = inputs[0]
    assert x is not None
    dim = attrs["dim"]
    dims = dim if isinstance(dim, tuple) else (dim,)
    wide = WIDE[access.value_type(out.dtype)] if out.dtype is not int64 else int64
    narrow = access.per_word(out.dtype) > 1
    accumulated: Operand = e.temporary(out.layout.shape, wide) if narrow else out
    _rows(e, x, x.layout, dims, accumulated, accumulated.layout.offset)
    if narrow:
        emit_map(e, "a", [accumulated], out, e.op)


def _rows(
    e: Emitter, x: Operand, layout: Layout, dims: tuple[int, ...], out: Operand, start: int
) -> None:
    """Reduce a part of `x` into the words of `out` from `start` on, row-major."""
    rows = _count(layout.shape, dims, False)
    out_fits = e.fits(out, Layout((rows,), (1,), start))
    if out_fits and (e.fits(x, layout) or 0 in layout.shape):
        _reduce_bound(e, x, layout, dims, out, start)
        return
    d = max(
        (d for d, n in enumerate(layout.shape) if n > 1 and (out_fits or d not in dims)),
        key=lambda d: (abs(layout.strides[d]), layout.shape[d]),
    )
    half = layout.shape[d] // 2
    ends = [(0, half), (half, layout.shape[d])]
    if d in dims:
        halves = [layout.slice(d, a, b) for a, b in ends]
        _halves(e, x, halves, [0, half if dims == (d,) else 0], dims, out, start)
        return
    for a, b in ends:
        piece = layout.slice(d, a, b)
        kept_shape = tuple(n for i, n in enumerate(piece.shape) if i not in dims)
        partial = e.temporary(kept_shape, out.dtype)
        _rows(e, x, piece, dims, partial, 0)
        result = Layout.contiguous([n for i, n in enumerate(layout.shape) if i not in dims])
        result_dim = sum(1 for i in range(d) if i not in dims)
        result_part = result.slice(result_dim, a, b)
        target = Layout(result_part.shape, result_part.strides, result_part.offset + start)
        move(e, partial, TensorView(out.buffer, target, out.dtype))


def _halves(
    e: Emitter,
    x: Operand,
    layouts: list[Layout],
    bases: list[int],
    dims: tuple[int, ...],
    out: Operand,
    start: int,
) -> None:
    """Rows that cannot be bound at once: partial results of their parts, then their reduction."""
    todo = list(zip(layouts, bases, strict=True))[::-1]
    parts: list[tuple[Layout, int]] = []
    while todo:
        layout, base = todo.pop()
        if e.fits(x, layout):
            parts.append((layout, base))
            continue
        d = max(
            (d for d, n in enumerate(layout.shape) if n > 1 and d in dims),
            key=lambda d: abs(layout.strides[d]),
            default=None,
        )
        if d is None:
            e.bind(x, layout)  # says what does not fit
            return
        half = layout.shape[d] // 2
        more = half if dims == (d,) else 0
        todo.append((layout.slice(d, half, layout.shape[d]), base + more))
        todo.append((layout.slice(d, 0, half), base))
    rows = _count(layouts[0].shape, dims, False)
    partial = e.temporary((len(parts), rows, 2), uint32)
    for i, (layout, base) in enumerate(parts):
        plane = Layout((rows, 2), (2, 1), i * rows * 2)
        _emit(e, x, layout, dims, partial, plane.offset, parts=1, base=base, to_parts=True)
    _emit_parts(e, x.dtype, partial, rows, len(parts), (1, rows), out, start)


def _count(shape: Shape, dims: tuple[int, ...], reduced: bool) -> int:
    count = 1
    for d, n in enumerate(shape):
        count *= n if (d in dims) is reduced else 1
    return count


def _reduce_bound(
    e: Emitter, x: Operand, layout: Layout, dims: tuple[int, ...], out: Operand, start: int
) -> None:
    rows, n = _count(layout.shape, dims, False), _count(layout.shape, dims, True)
    lanes = _lanes(e, layout, dims, rows, n)
    busy = _BUSY_CPU if e.on_cpu else _BUSY
    parts = max(1, min(-(-n // (lanes * 32)), busy // max(rows * lanes, 1)))
    if parts == 1:
        _emit(e, x, layout, dims, out, start)
        return
    partial = e.temporary((rows, parts, 2), uint32)
    _emit(e, x, layout, dims, partial, 0, parts=parts, to_parts=True)
    _emit_parts(e, x.dtype, partial, rows, parts, (parts, 1), out, start)


def _lanes(e: Emitter, layout: Layout, dims: tuple[int, ...], rows: int, n: int) -> int:
    """Invocations per row: as many as it feeds, but one where neighbouring rows lie closer."""
    near = [
        min(
            (
                abs(s)
                for d, s in enumerate(layout.strides)
                if layout.shape[d] > 1 and s and (d in dims) is which
            ),
            default=1 << 62,
        )
        for which in (True, False)
    ]
    near_rows = near[1] < near[0]
    few = e.on_cpu and n <= LANES[-1] * ROUNDS
    guess = next((lanes for lanes in LANES[3 * few :] if n >= 2 * lanes), 1)
    return int(
        e.pick(
            str(1 if near_rows and rows >= 64 else guess),
            "reduce",
            up_to(n, 1 << 20),
            min(8 ** len(f"{rows:o}"), 1 << 15),
            "neighbours apart" if near_rows else "neighbours together",
        )
    )


def candidates(e: Emitter, length: int, rows: int, way: str) -> list[str]:
    """How many invocations may share a row, for a class of rows."""
    least = length // ROUNDS if e.on_cpu else 0
    return [str(n) for n in (*LANES, 1) if least < n <= length or n == 1]


def _emit(
    e: Emitter,
    x: Operand,
    layout: Layout,
    dims: tuple[int, ...],
    out: Operand,
    start: int,
    *,
    parts: int = 1,
    base: int = 0,
    to_parts: bool = False,
) -> None:
    rows, n = _count(layout.shape, dims, False), _count(layout.shape, dims, True)
    kept_dims = [d for d in range(len(layout.shape)) if d not in dims]
    outer, outer_steps = _walk(e, layout, kept_dims)
    inner, inner_steps = _walk(e, layout, list(dims))
    lanes = _lanes(e, layout, dims, rows, n)
    bound, first = e.bind(x, layout)
    p = [0] * 42
    p[0:10] = [rows, start, first, n, parts, -(-n // parts), 0, base, len(outer), len(inner)]
    fill(p, 10, outer, outer_steps, inner, inner_steps)
    kernel = _kernel(e.op, x.dtype, out.dtype, lanes, False, to_parts, len(inner))
    _dispatch(e, kernel, bound, out, p, rows * parts, lanes, rows * parts * (2 if to_parts else 1))


def _emit_parts(
    e: Emitter,
    dtype: DType,
    partial: TensorView,
    rows: int,
    parts: int,
    steps: tuple[int, int],
    out: Operand,
    start: int,
) -> None:
    """The last pass over partial results; row r, part p is at r * steps[0] + p * steps[1]."""
    lanes = next((lanes for lanes in LANES if parts >= 2 * lanes), 1)
    p = [0] * 42
    p[0:10] = [rows, start, 0, parts, 1, parts, 0, 0, 1, 1]
    p[10], p[18], p[26], p[34] = rows, steps[0], parts, steps[1]
    bound, _ = e.bind(partial)
    kernel = _kernel(e.op, dtype, out.dtype, lanes, True, False, 1)
    _dispatch(e, kernel, bound, out, p, rows, lanes, rows)


def _dispatch(
    e: Emitter,
    kernel: Kernel,
    bound: Any,
    out: Operand,
    p: list[int],
    units: int,
    lanes: int,
    words: int,
) -> None:
    target, offset = e.bind(out, Layout((words,), (1,), p[1]))
    p[1] = offset
    bindings = [bound, target]
    if len(kernel.access) > 2:
        p[6] = e.status.code(e.op, "overflow")
        bindings.append(e.status.slice())
    e.dispatch(kernel, bindings, p, grid(-(-units * lanes // _GROUP)))


def _walk(e: Emitter, layout: Layout, dims: list[int]) -> tuple[Shape, Shape]:
    """Sizes and strides of some dims, joined to as few as possible."""
    sizes, (steps,) = e.walk(
        tuple(layout.shape[d] for d in dims), [tuple(layout.strides[d] for d in dims)]
    )
    return sizes, steps


LOWERINGS = dict.fromkeys(("sum", "amax", "amin", "any", "all", "argmax", "argmin"), reduce)
