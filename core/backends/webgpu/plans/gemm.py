"""The matrix product that matmul, linear and their kin share: tiles, layouts, pieces.

`gemm` computes out = a @ b (+ bias) for operands of any strides and storage dtypes, a batch at a
time, in float32. Operands whose rows or columns lie side by side are read four elements at once;
quantized blocks are taken apart where they are read, so no other copy of a weight is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from rushlight.core.backends import Operand
from rushlight.core.backends.webgpu import access, quads
from rushlight.core.backends.webgpu.blocks import planes_fit
from rushlight.core.backends.webgpu.emit import Emitter, Value, fill, grid
from rushlight.core.backends.webgpu.plans.creation import cast_expression
from rushlight.core.backends.webgpu.plans.map import emit_map
from rushlight.core.backends.webgpu.plans.product import product_kernel, side
from rushlight.core.backends.webgpu.recorder import Slice
from rushlight.core.dtype import DType, float32
from rushlight.core.layout import Layout


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
            "fn a_piece(p: u32, q: u32) -> piece { return a_inside(p, q); }",
            "fn put_piece(row: u32, column: u32, v: piece) { "
            "for (var r = 0u; r < 4u; r++) { put(row + r, column, v[r]); } }",
        ]
    file = "matmul_split" if lanes > 1 else "matmul_few"
    return Config(file, rows, 4 * (64 // lanes), tuple(lines))


# The configurations. Those of one lane, `registers` and `quads` need no workgroup memory, which
# software adapters are slow at; the others are for GPUs. `quads` needs subgroups.
CONFIGS: dict[str, Config] = {
    "row": _few(1, 1),
    "rows": _few(4, 1),
    "row_split": _few(1, 64),
    "row_split_columns": _few(1, 8),
    "rows_split": _few(4, 64),
    "rows_split_columns": _few(4, 8),
    "registers": Config("matmul_registers", 64, 64),
    "quads": Config("matmul_quads", 16, 64, ("enable subgroups;",)),
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
    info = e.recorder.port.info
    if info["type"] == "CPU":
        if rows <= 4:
            return "row" if rows == 1 else "rows"
        # SwiftShader runs four lanes at a time, a read of each by itself; llvmpipe eight.
        shared = rows > 8 and "subgroups" in e.features and "swiftshader" in info["device"].lower()
        return "quads" if shared else "registers"
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


def _emit(
    e: Emitter, a: Matrix, b: Matrix, out: Matrix, bias: Operand | None, column: int, add: bool
) -> None:
    *batch, n, m = out.layout.shape
    k = a.layout.shape[-1]
    sizes, steps = e.walk(tuple(batch), [x.layout.strides[:-2] for x in (a, b, out)])
    count = 1
    for size in sizes:
        count *= size
    # a is read along k, b along its columns.
    left, right = side(a.dtype, a.layout, -1, -2), side(b.dtype, b.layout, -1, -2)
    config = CONFIGS[choose(e, n, m, count, right.turned)]
    far = out.layout.strides[-2] if n > 1 else 0
    wide = out.layout.strides[-1] == 1 and not any(
        s % 4 for s in (m, far, out.layout.offset, *(steps[2] if count > 1 else ()))
    )
    half = "shader-f16" in e.features
    kernel = product_kernel(
        config.file, config.lines, left, right, out.dtype, wide,
        None if bias is None else bias.dtype, add, half, k % 4 != 0,
    )  # fmt: skip
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
    fill(parameters, 16, sizes, *steps)
    parameters[48 : 48 + len(shifts)] = shifts
    down, across = -(-n // config.rows), -(-m // config.columns)
    parameters[51:54] = [down, across, down * across * count]
    e.dispatch(kernel, bindings, parameters, grid(down * across * count))
