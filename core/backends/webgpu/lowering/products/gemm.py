"""The matrix product that matmul, linear and their kin share: tiles, layouts, pieces.

`gemm` computes out = a @ b (+ bias) for operands of any strides and storage dtypes, a batch at a
time, in float32. Operands whose rows or columns lie side by side are read four elements at once;
quantized blocks are taken apart where they are read, so no other copy of a weight is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access, quads
from rushlight.core.backends.webgpu.codegen.blocks import planes_fit
from rushlight.core.backends.webgpu.compiler.autotune import up_to
from rushlight.core.backends.webgpu.emit import ROUNDS, Emitter, fill, grid
from rushlight.core.backends.webgpu.lowering.creation import cast_expression
from rushlight.core.backends.webgpu.lowering.map import emit_map
from rushlight.core.backends.webgpu.lowering.products.epilogue import Tail, afterwards
from rushlight.core.backends.webgpu.lowering.products.product import (
    ROUNDED,
    TAIL,
    Side,
    product_kernel,
    side,
)
from rushlight.core.backends.webgpu.lowering.products.rounded import (
    byte_types,
    fits,
    mode_of,
    rounded,
)
from rushlight.core.backends.webgpu.runtime.recorder import Slice
from rushlight.core.basis.dtype import DTYPES, DType, float32
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout


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


def _runs(rows: int, size: int, lanes: int) -> Config:
    """One or four rows, of blocks along k; `lanes` of `size` invocations share the sums."""
    joined = "joined_lanes(v, lane)" if lanes > 1 else "v"
    lines = (
        f"const SIZE = {size}u;",
        f"const LANES = {lanes}u;",
        f"fn joined(v: vec4<f32>, lane: u32) -> vec4<f32> {{ return {joined}; }}",
    )
    file, columns = ("matmul_blocks", 8) if rows == 1 else ("matmul_blocks_rows", 4)
    return Config(file, rows, columns * size // lanes, lines)


# What takes their place where b has blocks along k.
BLOCKS: dict[str, Config] = {
    "row": _runs(1, 4, 1),
    "row_wide": _runs(1, 8, 1),
    "row_split": _runs(1, 64, 32),
    "row_split_64": _runs(1, 64, 64),
    "row_split_128": _runs(1, 128, 128),
    "rows": _runs(4, 4, 1),
    "rows_wide": _runs(4, 8, 1),
    "rows_split": _runs(4, 64, 32),
}
# The same in integers of 8 bits, and tiles of them; see rounded.py.
BYTES: dict[str, Config] = {
    f"int8_{name}": config._replace(file=config.file.replace("blocks", "bytes"))
    for name, config in BLOCKS.items()
} | {
    "int8_tile64": Config("matmul_bytes_tile", 64, 64, ("const DOWN = 1u;",)),
    "int8_tile128": Config("matmul_bytes_tile", 128, 128, ("const DOWN = 2u;",)),
}
# Tiles of them in float16, where there is shader-f16.
HALVES: dict[str, Config] = {
    f"float16_tile{64 * down}": Config(
        "matmul_half_tile", 64 * down, 64 * down, ("enable f16;", f"const DOWN = {down}u;")
    )
    for down in (1, 2)
}
# Bytes of workgroup memory that the larger of them takes.
_HALVES_BYTES = 17 << 10
# A test sets this to the name of one configuration, which then computes every product.
forced: list[str] = []
# Sums that go into one kernel on a CPU, where a round takes four products.
_LONGEST = 4 * ROUNDS
# So many columns keep it busy although no sum is shared.
_MANY_COLUMNS = 1 << 14
# Invocations that keep it busy, where sums of blocks are shared by more of them, and the elements
# that one of them takes at a time (matmul_blocks.wgsl).
_BUSY, _RUN = 1 << 16, 32


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

    @property
    def far_columns(self) -> bool:
        """Whether columns lie further apart than rows, so that parts of them reach less."""
        return self.layout.strides[-1] >= self.layout.strides[-2]

    def side(self, dense: int, other: int) -> Side:
        """How a kernel reads it; see product.side."""
        return side(self.dtype, self.layout, dense, other)

    def bind(self, e: Emitter) -> tuple[list[Slice], int, dict[int, Sequence[int]]]:
        """Bindings, where its first element lies in them, and parameters from some on."""
        bound, offset, shifts = quads.bind(e, self.operand, self.layout)
        return bound, offset, {48: shifts}


def matrix(x: Operand, layout: Layout | None = None) -> Matrix:
    """`x` by its own layout or another."""
    return Matrix(x, layout or x.layout)


def choose(
    e: Emitter, rows: int, columns: int, k: int, batch: int, right: Side, tiles: bool = True
) -> str:
    """The configuration for a result of this shape; right: b.

    tiles: whether rows may be rounded before, for tiles in integers.
    """
    if forced:
        return forced[0]
    mode = mode_of(e, right)
    few = next((n for n in (1, 4, 16) if rows <= n), 0)
    if right.of_runs and rows <= 4 and e.on_cpu and e.at_once == 8:
        guess = "row_wide" if rows == 1 else "rows_wide"
    else:
        guess = _guess(e, rows, columns, k, batch, right.turned)
    if right.of_runs and guess == "row_split":
        guess = _shared(columns * batch, k)
    kind = right.dtype.name + " of windows" * bool(right.windows)
    if mode == "int8" and (tiles or rows <= 16):
        kind = f"{kind} {mode}"
        guess = f"int8_{guess}" if f"int8_{guess}" in BYTES else "int8_rows_wide"
    elif mode == "float16" and rows > 16:
        kind, guess = f"{kind} {mode}", "float16_tile64"
    return e.pick(
        guess,
        "product",
        few or up_to(rows, 1024),
        up_to(columns, 1 << 17),
        up_to(k, 1 << 14),
        up_to(batch, 64),
        kind,
        "along" if right.turned else "across",
    )


def configuration(name: str, right: Side) -> Config:
    """The configuration of a name for a product with `right`."""
    if right.of_runs and name in BLOCKS:
        return BLOCKS[name]
    if right.of_runs and name in HALVES:
        return HALVES[name]
    if right.of_runs and name in BYTES and right.dtype in byte_types():
        return BYTES[name]
    return CONFIGS.get(name, CONFIGS["row"])


def candidates(
    e: Emitter, rows: int, columns: int, k: int, batch: int, kind: str, way: str
) -> list[str]:
    """The configurations that may be chosen for a class of products."""
    names = []
    kind, _, mode = kind.partition(" ")
    if mode == "int8" and kind in DTYPES:
        each = 1 if rows == 1 else 4
        names = [n for n, c in BYTES.items() if c.rows == each and rows <= 16 + 1024 * e.on_cpu]
        names += [n for n, c in BYTES.items() if c.rows > 4 and rows > 1]
    if mode in ("int8", "float16") and rows > 16 and "shader-f16" in e.features:
        large = e.limits["maxComputeWorkgroupStorageSize"] >= _HALVES_BYTES
        names += [n for n, c in HALVES.items() if large or c.rows == 64]
    if rows <= 16:
        few_rows = "row" if rows == 1 else "rows"
        names = [few_rows, f"{few_rows}_split", f"{few_rows}_split_columns"]
        few = BLOCKS[few_rows].rows
        if rows <= 4 and way == "along" and kind in DTYPES and DTYPES[kind].kind == "q":
            names += [name for name, c in BLOCKS.items() if name not in names and c.rows == few]
    if rows > 1:
        names += ["registers", "tile64"]
        names += ["quads"] * ("subgroups" in e.features) + ["tile128"] * (not e.on_cpu)
    return names


def _guess(e: Emitter, rows: int, columns: int, k: int, batch: int, along: bool) -> str:
    """along: b's columns lie side by side in k."""
    if e.on_cpu:
        if rows <= 4:
            return "row" if rows == 1 else "rows"
        # SwiftShader runs four lanes at a time, a read of each by itself; llvmpipe eight.
        name = e.recorder.port.info["device"].lower()
        shared = rows > 8 and "subgroups" in e.features and "swiftshader" in name
        return "quads" if shared else "registers"
    if rows <= 16 and k <= 64 and columns * batch >= _MANY_COLUMNS:
        return "row" if rows == 1 else "rows"
    if rows <= 16:
        few = "row_split" if rows == 1 else "rows_split"
        return few if along else f"{few}_columns"
    return "tile64"


def _shared(columns: int, k: int) -> str:
    """By how many invocations a sum of blocks is shared, for one row."""
    lanes = 32
    while lanes < 128 and _RUN * lanes < k and columns * lanes // 8 < _BUSY:
        lanes *= 2
    return "row_split" if lanes == 32 else f"row_split_{lanes}"


def gemm(
    e: Emitter,
    a: Matrix,
    b: Matrix,
    out: Matrix,
    bias: Matrix | None = None,
    add: bool = False,
    tail: Tail | None = None,
) -> None:
    """out = a @ b + bias; a (batch..., n, k), b (batch..., k, m), out and bias (batch..., n, m).

    add: the product is added to what is in `out`, which is float32. tail: what becomes of it
    before it is stored, in a kernel of its own where the sums come in parts.
    """
    m = out.layout.shape[-1]
    if m == 1 and out.layout.shape[-2] > 1 and type(b) is Matrix:
        if a.dtype.kind != "q" and b.dtype.kind != "q":
            # A column is a row of the transposed product.
            a, b, out, bias = b.turned, a.turned, out.turned, bias and bias.turned
    per = access.per_word(out.dtype)
    pieces = list(_pieces(e, _Piece(a, b, out, bias, add)))
    summed = any(p.add for p in pieces)
    rows = out.layout.strides[-2] if out.layout.shape[-2] > 1 else 0
    odd = per > 1 and any(n % 4 for n in (out.layout.shape[-1], rows, out.layout.offset))
    odd = odd or (per > 1 and any(s % 4 for s in out.layout.strides[:-2]))
    if tail is not None:
        batch = len([n for n in out.layout.shape[:-2] if n > 1])
        # A CPU is slower at it within the kernels for many rows than afterwards.
        odd = odd or (e.on_cpu and out.layout.shape[-2] > 4)
        if len(pieces) > 1 or odd or batch > 4 or not all(e.fits(x, x.layout) for x in tail.others):
            left = e.temporary(out.layout.shape, tail.chain.inputs[0])
            gemm(e, a, b, matrix(left), bias)
            afterwards(e, tail, left, out.operand)
            return
    if per > 1 and (odd or summed or out.layout.strides[-1] != 1):
        # Words would be shared between rows, or sums rounded on the way.
        wide = e.temporary(out.layout.shape, float32)
        gemm(e, a, b, matrix(wide), bias)
        target = TensorView(out.operand.buffer, out.layout, out.dtype)
        emit_map(e, cast_expression(float32, out.dtype), [wide], target, "cast")
        return
    for p in pieces:
        _emit(e, *p, tail)


class _Piece(NamedTuple):
    a: Matrix
    b: Matrix
    out: Matrix
    bias: Matrix | None
    add: bool  # to what is there

    def part(self, dim: int, start: int, stop: int, rows: bool, columns: bool) -> _Piece:
        """Some of a dim that the result has, and one or both operands."""
        a, b, out, bias = self.a, self.b, self.out, self.bias
        return _Piece(
            a.part(dim, start, stop) if rows else a,
            b.part(dim, start, stop) if columns else b,
            out.part(dim, start, stop),
            bias and bias.part(dim, start, stop),
            self.add,
        )


def _pieces(e: Emitter, piece: _Piece) -> Iterator[_Piece]:
    """Parts whose operands can be bound: of the batch, of rows or columns, or of the sum."""
    todo = [piece]
    while todo:
        p = todo.pop()
        fit = [x.fits(e) for x in (p.a, p.b, p.out)]
        if all(fit):
            long = e.on_cpu and p.a.layout.shape[-1] > _LONGEST
            halves = _halve_sum(p) if long else None
        else:
            halves = _halve(p, fit)
        if halves is None:
            yield p  # if it does not fit, binding it says what is wrong
        else:
            todo += reversed(halves)


def middle(n: int, b: Matrix) -> int:
    """Where to halve a dim of b: between blocks, and between tiles where it is long enough."""
    half = n // 2
    for step in (math.lcm(32, b.dtype.block), 4):
        if half >= step:
            return half // step * step
    return half


def _halve(p: _Piece, fit: list[bool]) -> list[_Piece] | None:
    *batch, n, m = p.out.layout.shape
    k = p.a.layout.shape[-1]
    for d, size in enumerate(batch):
        if size > 1:
            ends = [(0, size // 2), (size // 2, size)]
            return [p.part(d, s, t, True, True) for s, t in ends]
    d, steps = len(batch), p.a.layout.strides
    if n > 1 and (not fit[2] or (not fit[0] and steps[-2] >= steps[-1])):
        half = middle(n, p.b)
        return [p.part(d, s, t, True, False) for s, t in ((0, half), (half, n))]
    if m > 1 and (not fit[2] or (not fit[1] and p.b.far_columns)):
        half = middle(m, p.b)
        return [p.part(d + 1, s, t, False, True) for s, t in ((0, half), (half, m))]
    return _halve_sum(p) if k > 1 and fit[2] else None


def _halve_sum(p: _Piece) -> list[_Piece]:
    """The second half of every sum is added to the first."""
    d, k = p.a.layout.ndim - 2, p.a.layout.shape[-1]
    half = middle(k, p.b)
    first = p._replace(a=p.a.part(d + 1, 0, half), b=p.b.part(d, 0, half))
    rest = p._replace(a=p.a.part(d + 1, half, k), b=p.b.part(d, half, k), bias=None, add=True)
    return [first, rest]


def _emit(
    e: Emitter, a: Matrix, b: Matrix, out: Matrix, bias: Matrix | None, add: bool, tail: Tail | None
) -> None:
    *batch, n, m = out.layout.shape
    k = a.layout.shape[-1]
    # a is read along k, b along its columns.
    left, right = a.side(-1, -2), b.side(-1, -2)
    name = choose(e, n, m, k, math.prod(batch), right, fits(e, math.prod(batch) * n, k))
    config = configuration(name, right)
    if config.file == "matmul_bytes_tile":
        a, left = matrix(rounded(e, a)), ROUNDED
    every = [x.layout.strides for x in (a, b, out, *([bias] if bias else ()))]
    sizes, steps = e.walk(tuple(batch), [strides[:-2] for strides in every])
    count = 1
    for size in sizes:
        count *= size
    far = out.layout.strides[-2] if n > 1 else 0
    wide = out.layout.strides[-1] == 1 and not any(
        s % 4 for s in (m, far, out.layout.offset, *(steps[2] if count > 1 else ()))
    )
    half = "shader-f16" in e.features
    kernel = product_kernel(
        config.file,
        config.lines,
        left,
        right,
        out.dtype,
        wide,
        bias and bias.dtype,
        add,
        half,
        k % 4 != 0,
        tail=tail and tail.key,
    )
    a_bound, a_at, a_more = a.bind(e)
    b_bound, b_at, b_more = b.bind(e)
    o_bound, o_at, _ = out.bind(e)
    bindings: list[Slice] = [*a_bound, *b_bound, *o_bound]
    down, across = -(-n // config.rows), -(-m // config.columns)
    parameters: list[int] = [0] * 63
    more: dict[int, Sequence[int]] = {
        0: [n, m, k, len(sizes), a_at, *every[0][-2:], b_at, *every[1][-2:], o_at, far,
            out.layout.strides[-1]],
        16: sizes, 24: steps[0], 32: steps[1], 40: steps[2],
        51: [down, across, down * across * count],
    }  # fmt: skip
    if bias is not None:
        bound, place = e.bind(bias.operand, bias.layout)
        bindings.append(bound)
        more |= {13: [every[3][-2], place, every[3][-1]], 54: steps[3]}
    if tail is not None:
        others, numbers = tail.bind(e, o_at, TAIL)
        bindings += others
        more |= {place: [n] for place, n in numbers.items()}
    for base, words in (*more.items(), *a_more.items(), *b_more.items()):
        fill(parameters, base, words)
    e.dispatch(kernel, bindings, parameters, grid(down * across * count))
