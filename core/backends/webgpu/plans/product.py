"""The text of product kernels: how they read blocks of their operands and store their result."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rushlight.core.backends.webgpu import access, quads
from rushlight.core.backends.webgpu.recorder import Kernel
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout
from rushlight.wgsl_kernels import compose, text


class Side(NamedTuple):
    """How an operand is read: its dtype, in quads or not, and which dim lies side by side."""

    dtype: DType
    quads: bool
    turned: bool  # the dim that does not lie along the vectors of the kernel is the dense one


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


def _block_lines(name: str, rows: str, columns: str, side: Side) -> list[str]:
    """WGSL of NAME_block(p, q): a 4 by 4 block at (p, q) as vectors along q, one for each p.

    rows, columns: the sizes of p and q; what lies beyond them reads as zero. The strides are
    NAME_P and NAME_Q.
    """
    rows_ = [[f"{name}_one(p + {i}u, q + {j}u)" for j in range(4)] for i in range(4)]
    vectors = ", ".join(f"vec4<f32>({', '.join(row)})" for row in rows_)
    found = [
        f"fn {name}_one(p: u32, q: u32) -> f32 {{",
        f"if (p < {rows} && q < {columns}) "
        f"{{ return one_{name}({name}_base + p * {name}_P() + q * {name}_Q()); }}",
        "return 0.0; }",
        f"fn {name}_edge(p: u32, q: u32) -> mat4x4<f32> {{ return mat4x4<f32>({vectors}); }}",
        f"fn {name}_block(p: u32, q: u32) -> mat4x4<f32> {{",
        f"if (p + 4u > {rows} || q + 4u > {columns}) {{ return {name}_edge(p, q); }}",
    ]
    if not side.quads:
        found.append(f"return {name}_edge(p, q); }}")
    else:
        step, lead = ("Q", "q * S + p") if side.turned else ("P", "p * S + q")
        reads = ", ".join(f"quad_{name}(at + {i}u * S)" for i in range(4))
        whole = f"mat4x4<f32>({reads})"
        whole = f"transpose({whole})" if side.turned else whole
        found.append(f"let S = {name}_{step}(); let at = {name}_base + {lead};")
        found.append(f"return {whole}; }}")
    return found


def _inside_lines(name: str, side: Side, along: str, ragged: bool) -> list[str]:
    """WGSL of NAME_inside(p, q): as NAME_block, without a branch.

    What lies beyond the operand may be anything, which results that nobody stores are made of;
    but beyond the end of the sums (ragged: it is no multiple of four; along: p or q) it is zero.
    """
    if side.quads:
        step, lead = ("Q", "q * S + p") if side.turned else ("P", "p * S + q")
        found = [f"let S = {name}_{step}(); let at = {name}_base + {lead};"]
        whole = f"mat4x4<f32>({', '.join(f'quad_{name}(at + {i}u * S)' for i in range(4))})"
        found.append(f"let v = {f'transpose({whole})' if side.turned else whole};")
    else:
        rows = [[f"one_{name}(at + {i}u * S + {j}u * T)" for j in range(4)] for i in range(4)]
        found = [f"let S = {name}_P(); let T = {name}_Q(); let at = {name}_base + p * S + q * T;"]
        found.append("let v = mat4x4<f32>(" + ", ".join(f"vec4<f32>({', '.join(r)})" for r in rows))
        found[-1] += ");"
    whole = "v"
    if ragged and along == "p":
        parts = [f"select(vec4<f32>(), v[{i}], p + {i}u < P(2u))" for i in range(4)]
        whole = f"mat4x4<f32>({', '.join(parts)})"
    elif ragged:
        found.append("let there = vec4<u32>(q) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P(2u));")
        parts = [f"select(vec4<f32>(), v[{i}], there)" for i in range(4)]
        whole = f"mat4x4<f32>({', '.join(parts)})"
    head = f"fn {name}_inside(p: u32, q: u32) -> mat4x4<f32> {{"
    return [head, *found, f"return {whole}; }}"]


@cache
def product_kernel(
    file: str, more: tuple[str, ...], a: Side, b: Side, out: DType, wide: bool,
    bias: DType | None, add: bool, half: bool, ragged: bool,
) -> Kernel:  # fmt: skip
    """Kernel `file` completed by `more`, the lines of a configuration.

    wide: four elements of the result are stored at once. half: there is shader-f16. ragged: the
    length of the sums is no multiple of four.
    """
    at_b = quads.bindings_of(a.dtype)
    at_out = at_b + quads.bindings_of(b.dtype)
    # The kernels want a's vectors along k and b's along its columns.
    if "a_block" in text(file):
        blocks = [
            *_block_lines("a", "P(0u)", "P(2u)", a),
            *_block_lines("b", "P(2u)", "P(1u)", b),
        ]
    else:  # a CPU runs both sides of a branch, so these have none
        blocks = [
            *_inside_lines("a", a, "q", ragged),
            *_inside_lines("b", b, "p", ragged),
            _row_line(a, ragged),
        ]
    lines = [
        *quads.lines("a", 0, a.dtype, a.quads, half),
        *quads.lines("b", at_b, b.dtype, b.quads, half),
        "var<private> a_base: u32; var<private> b_base: u32; var<private> out_base: u32;",
        "fn a_P() -> u32 { return P(5u); } fn a_Q() -> u32 { return P(6u); }",
        "fn b_P() -> u32 { return P(8u); } fn b_Q() -> u32 { return P(9u); }",
        *blocks,
        f"const A_ALONG = {'false' if a.turned else 'true'};",
        f"const B_ALONG = {'true' if b.turned else 'false'};",
        *_store_lines(at_out, out, wide, add),
        *more,
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
    return Kernel(compose(file, *lines), access_, file)


def _row_line(a: Side, ragged: bool) -> str:
    """a_row(p, q): elements q to q + 3 of row p, zeros beyond the end of the sums."""
    if a.quads and not a.turned:
        read = "quad_a(a_base + p * P(5u) + q)"
    else:
        ones = ", ".join(f"one_a(at + {j}u * P(6u))" for j in range(4))
        read = f"vec4<f32>({ones})"
    if ragged:
        there = "vec4<u32>(q) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(P(2u))"
        read = f"select(vec4<f32>(), {read}, {there})"
    at = "" if a.quads and not a.turned else "let at = a_base + p * P(5u) + q * P(6u); "
    return f"fn a_row(p: u32, q: u32) -> vec4<f32> {{ {at}return {read}; }}"


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
