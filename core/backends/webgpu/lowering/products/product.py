"""The text of product kernels: how they read blocks of their operands and store their result."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rushlight.core.backends.webgpu.codegen import access, quads
from rushlight.core.backends.webgpu.lowering.fused import Chain
from rushlight.core.backends.webgpu.lowering.products import epilogue
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import DType, float32, uint32
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose, text


class Side(NamedTuple):
    """How an operand is read: its dtype, in quads or not, and which dim lies side by side."""

    dtype: DType
    quads: bool
    turned: bool  # the dim that does not lie along the vectors of the kernel is the dense one
    windows: int = 0  # 1 for windows of images, 2 where their places are divided

    @property
    def of_runs(self) -> bool:
        """Whether a column of b lies in runs of quantized elements."""
        return self.dtype.kind == "q" and self.turned


# Rows that rounded.py made of others: a kernel reads them as a_runs.
ROUNDED = Side(uint32, True, False)


def side(dtype: DType, layout: Layout, dense: int, other: int) -> Side:
    """dense: the dim (-1 or -2) whose neighbours the kernel reads at once if they are side by
    side; other: the other one, whose neighbours are read otherwise."""
    steps = layout.strides
    for first, second, turned in ((dense, other, False), (other, dense, True)):
        if steps[first] == 1 or layout.shape[first] == 1:
            far = steps[second] if layout.shape[second] > 1 else 0
            batch = [s for s, n in zip(steps[:-2], layout.shape[:-2], strict=True) if n > 1]
            if steps[first] == 1 and quads.aligned(dtype, [far, layout.offset, *batch]):
                return Side(dtype, True, turned)
    return Side(dtype, False, False)


def _vectors(name: str, side: Side, gathered: bool) -> tuple[str, str]:
    """WGSL of a 4 by 4 block at (p, q) as vectors along q, one for each p: what to let, a matrix.

    gathered: row p begins at NAME_start(p), wherever that is.
    """
    if gathered:
        starts = [f"{name}_start(p + {i}u) + q" for i in range(4)]
        lets = "" if side.quads else f"let T = {name}_Q(); "
    elif side.quads:
        step, lead = ("Q", "q * S + p") if side.turned else ("P", "p * S + q")
        lets = f"let S = {name}_{step}(); let at = {name}_base + {lead}; "
        starts = [f"at + {i}u * S" for i in range(4)]
    else:
        lets = f"let S = {name}_P(); let T = {name}_Q(); let at = {name}_base + p * S + q * T; "
        starts = [f"at + {i}u * S" for i in range(4)]
    if side.quads:
        rows = [f"quad_{name}({start})" for start in starts]
    else:
        starts = [s.replace(" + q", " + q * T") if gathered else s for s in starts]
        ones = [[f"one_{name}({s} + {j}u * T)" for j in range(4)] for s in starts]
        rows = [f"vec4<f32>({', '.join(row)})" for row in ones]
    matrix = f"mat4x4<f32>({', '.join(rows)})"
    return lets, f"transpose({matrix})" if side.quads and side.turned else matrix


def _block_lines(name: str, rows: str, columns: str, side: Side, gathered: bool) -> list[str]:
    """WGSL of NAME_block(p, q): a 4 by 4 block at (p, q) as vectors along q, one for each p.

    rows, columns: the sizes of p and q; what lies beyond them reads as zero.
    """
    start = f"{name}_start(p)" if gathered else f"{name}_base + p * {name}_P()"
    row = ", ".join(f"{name}_one(p + i, q + {j}u)" for j in range(4))
    lets, matrix = _vectors(name, side, gathered)
    return [
        f"fn {name}_one(p: u32, q: u32) -> f32 {{",
        f"if (p < {rows} && q < {columns}) {{ return one_{name}({start} + q * {name}_Q()); }}",
        "return 0.0; }",
        # Seldom used: a loop makes for a small program.
        f"fn {name}_edge(p: u32, q: u32) -> mat4x4<f32> {{ var m: mat4x4<f32>;",
        f"for (var i = 0u; i < 4u; i++) {{ m[i] = vec4<f32>({row}); }} return m; }}",
        f"fn {name}_block(p: u32, q: u32) -> mat4x4<f32> {{",
        f"if (p + 4u > {rows} || q + 4u > {columns}) {{ return {name}_edge(p, q); }}",
        f"{lets}return {matrix}; }}",
    ]


def _inside_lines(name: str, side: Side, along: str, ragged: bool, gathered: bool) -> list[str]:
    """WGSL of NAME_inside(p, q): as NAME_block, without a branch.

    What lies beyond the operand may be anything, which results that nobody stores are made of;
    but beyond the end of the sums (ragged: it is no multiple of four; along: p or q) it is zero.
    """
    lets, matrix = _vectors(name, side, gathered)
    lines = [f"{lets}let v = {matrix};"]
    matrix = "v"
    if ragged and along == "p":
        parts = [f"select(vec4<f32>(), v[{i}], p + {i}u < P(2u))" for i in range(4)]
        matrix = f"mat4x4<f32>({', '.join(parts)})"
    elif ragged:
        lines.append("let there = vec4<u32>(q) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P(2u));")
        parts = [f"select(vec4<f32>(), v[{i}], there)" for i in range(4)]
        matrix = f"mat4x4<f32>({', '.join(parts)})"
    head = f"fn {name}_inside(p: u32, q: u32) -> mat4x4<f32> {{"
    return [head, *lines, f"return {matrix}; }}"]


def window_lines(divided: bool) -> list[str]:
    """WGSL of b_value, an element of windows of images; see lowering/products/windows.py.

    divided: places are divided by the steps of the windows.
    """
    step = "vec2<u32>(P(38u), P(39u))"
    rest = f"let rest = at % {step}; at /= {step};" if divided else ""
    # No `&&`: each is a branch, and of sixteen in a block SwiftShader makes minutes of compiling.
    inside = "all(at < vec2<u32>(P(34u), P(35u)))"
    inside += " & all(rest == vec2<u32>())" if divided else ""
    return [
        "fn tap(i: u32, plane: u32, row: u32) -> vec3<u32> { let r = i % plane; "
        "return vec3<u32>(i / plane, r / row, r % row); }",
        "fn b_value(p: vec3<u32>, q: vec3<u32>) -> f32 {",
        "var at = p.yz * vec2<u32>(P(26u), P(27u)) + q.yz * vec2<u32>(P(28u), P(29u)) "
        f"+ vec2<u32>(P(30u), P(31u)); {rest}",
        f"let there = {inside};",
        "let place = b_base + p.x * P(8u) + q.x * P(9u) + at.x * P(36u) + at.y * P(37u);",
        "return select(0.0, one_b(select(0u, place, there)), there); }",
    ]


def _window_block(name: str, divided: bool) -> list[str]:
    """WGSL of `name`, b_block or b_inside, over windows of images."""
    values = ", ".join(f"b_value(from_, q{j})" for j in range(4))
    return [
        *window_lines(divided),
        f"fn {name}(p: u32, q: u32) -> mat4x4<f32> {{ var m: mat4x4<f32>;",
        *(f"let q{j} = tap(q + {j}u + P(23u), P(20u), P(21u));" for j in range(4)),
        "for (var i = 0u; i < 4u; i++) { let from_ = tap(p + i + P(22u), P(18u), P(19u));",
        f"m[i] = select(vec4<f32>(), vec4<f32>({values}), p + i < P(2u)); }}",
        "return m; }",
    ]


_RUNS = "@group(0) @binding(0) var<storage, read> a_runs: array<vec4<u32>>;"


@cache
def product_kernel(
    file: str,
    more: tuple[str, ...],
    a: Side,
    b: Side,
    out: DType,
    wide: bool,
    bias: DType | None,
    add: bool,
    half: bool,
    ragged: bool,
    rows: str = "",
    index: DType = float32,
    tail: tuple[Chain, str] | None = None,
) -> Kernel:
    """Kernel `file` completed by `more`, the lines of a configuration.

    wide: four elements of the result are stored at once. half: there is shader-f16. ragged: the
    length of the sums is no multiple of four. rows: "index" or "table" where b is one of several
    matrices; see library/experts.wgsl. tail: what becomes of the result, see epilogue.py.
    """
    at_b = quads.bindings_of(a.dtype)
    at_out = at_b + quads.bindings_of(b.dtype)
    # The kernels want a's vectors along k and b's along its columns.
    branches = "a_block" in text(file)
    if a is ROUNDED:
        blocks = []
    elif branches:
        blocks = _block_lines("a", "row_end()", "P(2u)", a, bool(rows))
    else:  # a CPU runs both sides of a branch, so these have none
        blocks = [*_inside_lines("a", a, "q", ragged, bool(rows)), _row_line(a, ragged, bool(rows))]
    runs = quads.run_lines(at_b, b.dtype, text(file))
    if runs:
        pass
    elif b.windows:
        blocks += _window_block("b_block" if branches else "b_inside", b.windows == 2)
    elif branches:
        blocks += _block_lines("b", "P(2u)", "P(1u)", b, False)
    else:
        blocks += _inside_lines("b", b, "p", ragged, False)
    lines = [
        *([_RUNS] if a is ROUNDED else quads.lines("a", 0, a.dtype, a.quads, half)),
        *(runs or quads.lines("b", at_b, b.dtype, b.quads, half)),
        "var<private> a_base: u32; var<private> b_base: u32;",
        "var<private> out_base: u32; var<private> bias_base: u32;",
        "fn a_P() -> u32 { return P(5u); } fn a_Q() -> u32 { return P(6u); }",
        "fn b_P() -> u32 { return P(8u); } fn b_Q() -> u32 { return P(9u); }",
        *blocks,
        f"const A_ALONG = {'false' if a.turned else 'true'};",
        f"const B_ALONG = {'true' if b.turned else 'false'};",
        *_store_lines(at_out, out, wide, add, tail is not None),
        *more,
    ]
    access_ = "r" * at_out + "w"
    if bias is None:
        lines.append("fn biased(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> { return v; }")
    else:
        access_ += "r"
        lines.append(access.reader("bias", at_out + 1, bias))
        reads = ", ".join(f"load_bias(at + {i}u * P(15u))" for i in range(4))
        lines.append(
            "fn biased(v: vec4<f32>, row: u32, column: u32) -> vec4<f32> { let at = bias_base + "
            f"row * P(13u) + column * P(15u); return v + vec4<f32>({reads}); }}"
        )
    if tail is not None:
        lines += epilogue.lines(tail, at_out + 1 + (bias is not None), TAIL)
        access_ += "r" * len(tail[1])
    if rows:
        access_ += {"index": "rw", "table": "r"}[rows]
        lines += _experts_lines(rows, at_out + 1 + (bias is not None), index)
    enables = sorted({s for s in lines if s.startswith("enable ")})  # each is wanted once
    lines = [*enables, *(s for s in lines if s not in enables)]
    return Kernel(compose(file, *lines), access_, quads.label(file, b.dtype))


def _experts_lines(rows: str, binding: int, index: DType) -> list[str]:
    """WGSL that takes b and the rows of a tile from an index, or from a table made of it."""
    lines = [
        f"fn enter(number: u32) -> vec3<u32> {{ return {rows}_enter(number); }}",
        f"fn row_end() -> u32 {{ return {rows}_row_end(); }}",
        f"fn a_start(row: u32) -> u32 {{ return {rows}_a_start(row); }}",
        f"fn out_start(row: u32) -> u32 {{ return {rows}_out_start(row); }}",
    ]
    if rows == "index":
        return [access.reader("index", binding, index), access.status(binding + 1), *lines]
    table = f"@group(0) @binding({binding}) var<storage, read> table: array<u32>;"
    return [table, "var<private> row_first: u32; var<private> row_count: u32;", *lines]


def _row_line(a: Side, ragged: bool, gathered: bool) -> str:
    """a_row(p, q): elements q to q + 3 of row p, zeros beyond the end of the sums."""
    start = "let at = " + ("a_start(p)" if gathered else "a_base + p * P(5u)") + " + q * P(6u); "
    ones = ", ".join(f"one_a(at + {j}u * P(6u))" for j in range(4))
    read = "quad_a(at)" if a.quads and not a.turned else f"vec4<f32>({ones})"
    if ragged:
        inside = "vec4<u32>(q) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P(2u))"
        read = f"select(vec4<f32>(), {read}, {inside})"
    return f"fn a_row(p: u32, q: u32) -> vec4<f32> {{ {start}return {read}; }}"


# The parameters of an epilogue; the last of them are free where there are up to four batch dims.
TAIL = (62, 58, 59, 60, 61, 20, 21, 22, 23)


def _store_lines(binding: int, out: DType, wide: bool, add: bool, tail: bool) -> list[str]:
    """WGSL of put(row, column, v): four elements of a row of the result, where they exist."""
    biased = "biased(value, row, column)"
    ends = ", ".join(f"finished(u[{i}], at + {i}u * P(12u), column + {i}u)" for i in range(4))
    head = [
        "fn put(row: u32, column: u32, value: vec4<f32>) {",
        "if (row >= row_end() || column >= P(1u)) { return; }",
        "let at = out_start(row) + column * P(12u);",
        f"let u = {biased}; let v = vec4<f32>({ends});" if tail else f"let v = {biased};",
    ]
    if wide:
        store = {4: "vec4<u32>", 2: "vec2<u32>", 1: "u32"}[access.width(out)]
        codes = [f"encode(v[{i}])" for i in range(4)]
        biased = {
            4: "bitcast<vec4<u32>>(v)",
            2: f"vec2<u32>({codes[0]} | ({codes[1]} << 16u), {codes[2]} | ({codes[3]} << 16u))",
            1: " | ".join(f"({c} << {8 * i}u)" for i, c in enumerate(codes)),
        }[access.width(out)]
        encode = access.writer(binding, out).split("\n", 1)[1]
        now = "out_quads[at >> 2u] = " + (
            "bitcast<vec4<u32>>(v + bitcast<vec4<f32>>(out_quads[at >> 2u]))" if add else biased
        )
        return [
            f"@group(0) @binding({binding}) var<storage, read_write> out_quads: array<{store}>;",
            encode,
            *head,
            f"{now}; }}",
        ]
    old = "bitcast<f32>(out_words[to]) + " if add else ""
    return [
        access.writer(binding, out),
        *head,
        "for (var i = 0u; i < min(4u, P(1u) - column); i++) { let to = at + i * P(12u); "
        f"out_words[to] = bitcast<u32>({old}v[i]); }} }}",
    ]
