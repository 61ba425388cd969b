"""The matrix product that matmul, linear and their kin share: tiles, layouts, pieces.

`gemm` computes out = a @ b (+ bias) for operands of any strides and storage dtypes, a batch at a
time, in float32. Operands whose rows or columns lie side by side are read four elements at once;
quantized blocks are taken apart where they are read, so no other copy of a weight is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from rushlight.core.backends import Operand
from rushlight.core.backends.webgpu import access, quads
from rushlight.core.backends.webgpu.blocks import planes_fit
from rushlight.core.backends.webgpu.emit import Emitter, Value, collapse, grid
from rushlight.core.backends.webgpu.plans.creation import cast_expression
from rushlight.core.backends.webgpu.plans.map import emit_map
from rushlight.core.backends.webgpu.recorder import Kernel, Slice
from rushlight.core.dtype import DType, float32
from rushlight.core.layout import Layout
from rushlight.wgsl_kernels import compose


class Config(NamedTuple):
    """A kernel with its tile: the rows and columns of the result that a workgroup computes."""

    file: str
    rows: int
    columns: int
    lines: tuple[str, ...] = ()


def _few(rows: int, lanes: int) -> Config:
    """One or four rows; `lanes` of 64 invocations share the sums of the same elements."""
    lines = [f"const ROWS = {rows}u;", f"const LANES = {lanes}u;"]
    if rows == 1:
        lines += [
            "alias piece = vec4<f32>;",
            "fn a_piece(p: u32, q: u32) -> piece { return a_row(p, q); }",
            "fn put_piece(row: u32, column: u32, v: piece) { put(row, column, v); }",
        ]
    else:
        lines += [
            "alias piece = mat4x4<f32>;",
            "fn a_piece(p: u32, q: u32) -> piece { return a_block(p, q); }",
            "fn put_piece(row: u32, column: u32, v: piece) { "
            "for (var r = 0u; r < 4u; r++) { put(row + r, column, v[r]); } }",
        ]
    file = "matmul_split" if lanes > 1 else "matmul_few"
    return Config(file, rows, 4 * (64 // lanes), tuple(lines))


# The configurations. Those of one lane and `registers` need no workgroup memory, which software
# adapters are slow at; the others are for GPUs.
CONFIGS: dict[str, Config] = {
    "row": _few(1, 1),
    "rows": _few(4, 1),
    "row_split": _few(1, 64),
    "row_split_columns": _few(1, 8),
    "rows_split": _few(4, 64),
    "rows_split_columns": _few(4, 8),
    "registers": Config("matmul_registers", 64, 64),
    "tile64": Config("matmul_tile", 64, 64, ("const DOWN = 1u;",)),
    "tile128": Config("matmul_tile", 128, 128, ("const DOWN = 2u;",)),
}
# A test sets this to the name of one configuration, which then computes every product.
forced: list[str] = []
# Results of at least this many tiles of 128 by 128 keep a GPU busy with the large ones.
_MANY_TILES = 128


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand seen as (batch..., rows, columns) through `layout`."""

    operand: Operand
    layout: Layout

    @property
    def dtype(self) -> DType:
        """The storage dtype."""
        return self.operand.dtype

    def part(self, dim: int, start: int, stop: int) -> Matrix:
        """Some rows or columns, or some of a batch."""
        return replace(self, layout=self.layout.slice(dim, start, stop))

    @property
    def turned(self) -> Matrix:
        """The transposed matrix."""
        d = self.layout.ndim
        return replace(self, layout=self.layout.permute([*range(d - 2), d - 1, d - 2]))

    def fits(self, e: Emitter) -> bool:
        """Whether it can be bound at once."""
        if self.dtype.kind == "q":
            return planes_fit(e, self.operand, self.layout)
        return e.fits(self.operand, self.layout)


def matrix(x: Operand, layout: Layout | None = None) -> Matrix:
    """`x` by its own layout or another."""
    return Matrix(x, layout or x.layout)


def choose(e: Emitter, rows: int, columns: int, batch: int, along: bool) -> str:
    """The configuration for a result of this shape. along: b's columns lie side by side in k."""
    if forced:
        return forced[0]
    software = e.recorder.port.info.get("type", "") == "CPU"
    if software:
        return "row" if rows == 1 else "rows" if rows <= 4 else "registers"
    if rows <= 16:
        few = "row_split" if rows == 1 else "rows_split"
        return few if along else f"{few}_columns"
    tiles = -(-rows // 128) * -(-columns // 128) * batch
    return "tile128" if tiles >= _MANY_TILES else "tile64"


def gemm(e: Emitter, a: Matrix, b: Matrix, out: Matrix, bias: Operand | None = None) -> None:
    """out = a @ b + bias; a (batch..., n, k), b (batch..., k, m), out (batch..., n, m)."""
    m = out.layout.shape[-1]
    if m == 1 and out.layout.shape[-2] > 1 and bias is None and b.dtype.kind != "q":
        if a.dtype.kind != "q":  # a column is a row of the transposed product
            a, b, out = b.turned, a.turned, out.turned
    per = access.per_word(out.dtype)
    pieces = list(_pieces(e, a, b, out))
    summed = any(p.start for p in pieces)
    rows = out.layout.strides[-2] if out.layout.shape[-2] > 1 else 0
    odd = per > 1 and any(n % 4 for n in (out.layout.shape[-1], rows, out.layout.offset))
    odd = odd or (per > 1 and any(s % 4 for s in out.layout.strides[:-2]))
    if per > 1 and (odd or summed or out.layout.strides[-1] != 1):
        # Words would be shared between rows, or sums rounded on the way.
        made = e.temporary(out.layout.shape, float32)
        gemm(e, a, b, matrix(made), bias)
        given = Value(out.operand.buffer, out.layout, out.dtype)
        emit_map(e, cast_expression(float32, out.dtype), [made], given, "cast")
        return
    for p in pieces:
        _emit(e, p.a, p.b, p.out, bias if p.start == 0 else None, p.column, p.start > 0)


class _Piece(NamedTuple):
    a: Matrix
    b: Matrix
    out: Matrix
    column: int  # of the whole result, where the bias goes on
    start: int  # of the sum: what begins later is added to what is there


def _pieces(e: Emitter, a: Matrix, b: Matrix, out: Matrix) -> Iterator[_Piece]:
    """Parts whose operands can be bound: of the batch, of rows or columns, or of the sum."""
    todo = [_Piece(a, b, out, 0, 0)]
    while todo:
        p = todo.pop()
        fit = [x.fits(e) for x in (p.a, p.b, p.out)]
        if all(fit):
            yield p
            continue
        halves = _halve(p, fit)
        if halves is None:
            yield p  # binding it says what is wrong
        else:
            todo += reversed(halves)


def _middle(n: int) -> int:
    half = n // 2
    for step in (32, 4):
        if half >= step:
            return half // step * step
    return half


def _halve(p: _Piece, fit: list[bool]) -> list[_Piece] | None:
    a, b, out = p.a, p.b, p.out
    *batch, n, m = out.layout.shape
    k = a.layout.shape[-1]
    for d, size in enumerate(batch):
        if size > 1:
            half = size // 2
            return [
                _Piece(a.part(d, s, t), b.part(d, s, t), out.part(d, s, t), p.column, p.start)
                for s, t in ((0, half), (half, size))
            ]
    by_rows = not fit[2] or (not fit[0] and a.layout.strides[-2] >= a.layout.strides[-1])
    if by_rows and n > 1:
        half, d = _middle(n), len(batch)
        return [
            _Piece(a.part(d, s, t), b, out.part(d, s, t), p.column, p.start)
            for s, t in ((0, half), (half, n))
        ]
    if (not fit[1] and b.layout.strides[-1] >= b.layout.strides[-2]) or not fit[2]:
        if m > 1:
            half, d = _middle(m), len(batch) + 1
            return [
                _Piece(a, b.part(d, s, t), out.part(d, s, t), p.column + s, p.start)
                for s, t in ((0, half), (half, m))
            ]
    if k > 1 and fit[2]:
        half, d = _middle(k), len(batch)
        return [
            _Piece(a.part(d + 1, s, t), b.part(d, s, t), out, p.column, p.start + s)
            for s, t in ((0, half), (half, k))
        ]
    return None


class _Side(NamedTuple):
    """How an operand is read: its dtype, in quads or not, and which dim lies side by side."""

    dtype: DType
    quads: bool
    turned: bool  # the dim that does not lie along the vectors of the kernel is the dense one


def _side(x: Matrix, dense: int, other: int) -> _Side:
    """dense: the dim (-1 or -2) whose neighbours the kernel reads at once if they are side by
    side; other: the other one, whose neighbours are read otherwise."""
    layout = x.layout
    steps = layout.strides
    for first, second, turned in ((dense, other, False), (other, dense, True)):
        if steps[first] == 1 or layout.shape[first] == 1:
            far = steps[second] if layout.shape[second] > 1 else 0
            batch = [s for s, n in zip(steps[:-2], layout.shape[:-2], strict=True) if n > 1]
            if steps[first] == 1 and quads.aligned(x.dtype, [far, layout.offset, *batch]):
                return _Side(x.dtype, True, turned)
    return _Side(x.dtype, False, False)


def _block_lines(name: str, rows: str, columns: str, side: _Side) -> list[str]:
    """WGSL of NAME_block(p, q): a 4 by 4 block at (p, q) as vectors along q, one for each p.

    rows, columns: the sizes of p and q; what lies beyond them reads as zero. The strides are
    NAME_P and NAME_Q.
    """
    rows_ = [[f"{name}_one(p + {i}u, q + {j}u)" for j in range(4)] for i in range(4)]
    vectors = ", ".join(f"vec4<f32>({', '.join(row)})" for row in rows_)
    text = [
        f"fn {name}_one(p: u32, q: u32) -> f32 {{",
        f"if (p < {rows} && q < {columns}) "
        f"{{ return one_{name}({name}_base + p * {name}_P() + q * {name}_Q()); }}",
        "return 0.0; }",
        f"fn {name}_edge(p: u32, q: u32) -> mat4x4<f32> {{ return mat4x4<f32>({vectors}); }}",
        f"fn {name}_block(p: u32, q: u32) -> mat4x4<f32> {{",
        f"if (p + 4u > {rows} || q + 4u > {columns}) {{ return {name}_edge(p, q); }}",
    ]
    if not side.quads:
        text.append(f"return {name}_edge(p, q); }}")
    else:
        step, lead = ("Q", "q * S + p") if side.turned else ("P", "p * S + q")
        reads = ", ".join(f"quad_{name}(at + {i}u * S)" for i in range(4))
        whole = f"mat4x4<f32>({reads})"
        whole = f"transpose({whole})" if side.turned else whole
        text.append(f"let S = {name}_{step}(); let at = {name}_base + {lead};")
        text.append(f"return {whole}; }}")
    return text


@cache
def _kernel(
    config: Config, a: _Side, b: _Side, out: DType, wide: bool, bias: DType | None, add: bool,
    half: bool,
) -> Kernel:  # fmt: skip
    """The kernel of a configuration. wide: four elements of the result are stored at once."""
    at_b = quads.bindings_of(a.dtype)
    at_out = at_b + quads.bindings_of(b.dtype)
    # The kernels want a's vectors along k and b's along its columns.
    lines = [
        *quads.lines("a", 0, a.dtype, a.quads, half),
        *quads.lines("b", at_b, b.dtype, b.quads, half),
        "var<private> a_base: u32; var<private> b_base: u32; var<private> out_base: u32;",
        "fn a_P() -> u32 { return P(5u); } fn a_Q() -> u32 { return P(6u); }",
        "fn b_P() -> u32 { return P(8u); } fn b_Q() -> u32 { return P(9u); }",
        *_block_lines("a", "P(0u)", "P(2u)", a),
        *_block_lines("b", "P(2u)", "P(1u)", b),
        f"const A_ALONG = {'false' if a.turned else 'true'};",
        f"const B_ALONG = {'true' if b.turned else 'false'};",
        _row_line(a),
        *_store_lines(at_out, out, wide, add),
        *config.lines,
    ]
    access_ = "r" * at_out + "w"
    if bias is None:
        lines.append("fn biased(v: vec4<f32>, column: u32) -> vec4<f32> { return v; }")
    else:
        access_ += "r"
        lines.append(access.reader("bias", at_out + 1, bias))
        reads = ", ".join(f"load_bias(at + {i}u * P(15u))" for i in range(4))
        lines.append(
            "fn biased(v: vec4<f32>, column: u32) -> vec4<f32> { "
            f"let at = P(14u) + column * P(15u); return v + vec4<f32>({reads}); }}"
        )
    enables = sorted({s for s in lines if s.startswith("enable ")})  # each is wanted once
    lines = [*enables, *(s for s in lines if s not in enables)]
    return Kernel(compose(config.file, *lines), access_, config.file)


def _row_line(a: _Side) -> str:
    """a_row(p, q): elements q to q + 3 of row p."""
    edge = ", ".join(f"a_one(p, q + {j}u)" for j in range(4))
    if not a.quads or a.turned:
        return f"fn a_row(p: u32, q: u32) -> vec4<f32> {{ return vec4<f32>({edge}); }}"
    return (
        "fn a_row(p: u32, q: u32) -> vec4<f32> { if (p >= P(0u) || q + 4u > P(2u)) "
        f"{{ return vec4<f32>({edge}); }} return quad_a(a_base + p * P(5u) + q); }}"
    )


def _store_lines(binding: int, out: DType, wide: bool, add: bool) -> list[str]:
    """WGSL of put(row, column, v): four elements of a row of the result, where they exist."""
    head = [
        "fn put(row: u32, column: u32, value: vec4<f32>) {",
        "if (row >= P(0u) || column >= P(1u)) { return; }",
        "let at = out_base + row * P(11u) + column * P(12u);",
        "let v = biased(value, column);",
    ]
    if wide:
        store = {4: "vec4<u32>", 2: "vec2<u32>", 1: "u32"}[access.width(out)]
        codes = [f"encode(v[{i}])" for i in range(4)]
        whole = {
            4: "bitcast<vec4<u32>>(v)",
            2: f"vec2<u32>({codes[0]} | ({codes[1]} << 16u), {codes[2]} | ({codes[3]} << 16u))",
            1: " | ".join(f"({c} << {8 * i}u)" for i, c in enumerate(codes)),
        }[access.width(out)]
        encode = access.writer(binding, out).split("\n", 1)[1]
        now = "out_quads[at >> 2u] = " + (
            "bitcast<vec4<u32>>(v + bitcast<vec4<f32>>(out_quads[at >> 2u]))" if add else whole
        )
        return [
            f"@group(0) @binding({binding}) var<storage, read_write> out_quads: array<{store}>;",
            encode, *head, f"{now}; }}",
        ]  # fmt: skip
    old = "bitcast<f32>(out_words[to]) + " if add else ""
    return [
        access.writer(binding, out),
        *head,
        "for (var i = 0u; i < min(4u, P(1u) - column); i++) { let to = at + i * P(12u); "
        f"out_words[to] = bitcast<u32>({old}v[i]); }} }}",
    ]


def _emit(
    e: Emitter, a: Matrix, b: Matrix, out: Matrix, bias: Operand | None, column: int, add: bool
) -> None:
    *batch, n, m = out.layout.shape
    k = a.layout.shape[-1]
    sizes, (a_steps, b_steps, o_steps) = collapse(
        tuple(batch), [x.layout.strides[:-2] for x in (a, b, out)]
    )
    count = 1
    for size in sizes:
        count *= size
    # a is read along k, b along its columns.
    left, right = _side(a, -1, -2), _side(b, -1, -2)
    config = CONFIGS[choose(e, n, m, count, right.turned)]
    far = out.layout.strides[-2] if n > 1 else 0
    wide = out.layout.strides[-1] == 1 and not any(
        s % 4 for s in (m, far, out.layout.offset, *(o_steps if count > 1 else ()))
    )
    half = "shader-f16" in e.features
    kernel = _kernel(
        config, left, right, out.dtype, wide, None if bias is None else bias.dtype, add, half
    )
    a_bound, a_at, _ = quads.bind(e, a.operand, a.layout)
    b_bound, b_at, shifts = quads.bind(e, b.operand, b.layout)
    o_bound, o_at, _ = quads.bind(e, Value(out.operand.buffer, out.layout, out.dtype), out.layout)
    bindings: list[Slice] = [*a_bound, *b_bound, *o_bound]
    parameters: list[int] = [0] * 56
    parameters[0:13] = [
        n, m, k, len(sizes), a_at, a.layout.strides[-2], a.layout.strides[-1],
        b_at, b.layout.strides[-2], b.layout.strides[-1], o_at, far, out.layout.strides[-1],
    ]  # fmt: skip
    if bias is not None:
        bound, at = e.bind(bias)
        bindings.append(bound)
        parameters[14:16] = [at + column * bias.layout.strides[0], bias.layout.strides[0]]
    for base, steps in ((16, sizes), (24, a_steps), (32, b_steps), (40, o_steps)):
        if len(steps) > 8:
            raise ValueError(f"{e.op}: {len(steps)} batch dims that lie apart; webgpu walks 8")
        parameters[base : base + len(steps)] = steps
    parameters[48 : 48 + len(shifts)] = shifts
    down, across = -(-n // config.rows), -(-m // config.columns)
    parameters[51:54] = [down, across, down * across * count]
    e.dispatch(kernel, bindings, parameters, grid(down * across * count))
