"""Attention of one query, as in a decoding step, for adapters that run on a CPU: one dispatch."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access, quads
from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.basis.dtype import DType

# Query heads that share a key head; features of a head; scores that are kept.
MOST_FOLD, MOST_FEATURES, _SCORES = 8, 128, 1024
# A test sets this to the name of the kernel to use.
forced: list[str] = []


def suits(q: Operand, k: Operand, v: Operand, values: int) -> bool:
    """Whether the kernels support these operands: one query, contiguous features in fours."""
    return (
        q.layout.shape[2] == 1
        and q.layout.shape[1] // k.layout.shape[1] <= MOST_FOLD
        and max(q.layout.shape[3], values) <= MOST_FEATURES
        and all(_in_fours(x) for x in (q, k, v))
    )


def _in_fours(x: Operand) -> bool:
    layout = x.layout
    steps = [s for s, n in zip(layout.strides[:-1], layout.shape[:-1], strict=True) if n > 1]
    near = layout.strides[-1] == 1 and layout.shape[-1] % 4 == 0
    return near and quads.aligned(x.dtype, [layout.offset, *steps])


def kernel(e: Emitter, fold: int, features: int, values: int, out: DType) -> tuple[str, list[str]]:
    """The file of the kernel, and lines for it."""
    device = e.recorder.port.info["device"].lower()
    file = forced[0] if forced else f"attention_{'heads' if 'llvmpipe' in device else 'row'}"
    if file == "attention_heads":
        return file, _heads(fold, range(features // 4), range(values // 4), out)
    return file, _row(fold, values)


def _heads(fold: int, features: range, values: range, out: DType) -> list[str]:
    each = " ".join
    size = access.per_word(out)
    stores = " ".join(
        f"out_words[(at + 4u * i + {j}u) / PER] = "
        + " | ".join(f"(encode(v[{j + n}]) << {n * 32 // size}u)" for n in range(size))
        + ";"
        for j in range(0, 4, size)
    )
    return [
        f"const FOLD = {fold}u;",
        *(f"var<private> q{i}: vec4<f32>;" for i in features),
        *(f"var<private> s{i}: vec4<f32>;" for i in values),
        "fn read_q(at: u32) {",
        each(f"q{i} = quad_q(at + {4 * i}u);" for i in features),
        "}",
        "fn product(at: u32) -> f32 { var s = vec4<f32>();",
        each(f"s = fma(q{i}, quad_k(at + {4 * i}u), s);" for i in features),
        "return dot(s, vec4<f32>(1.0)); }",
        "fn add_value(at: u32, w: f32, fade: f32) {",
        each(f"s{i} = fma(vec4<f32>(w), quad_v(at + {4 * i}u), s{i} * fade);" for i in values),
        "}",
        # In a loop: SwiftShader would compile the encoding for each of them.
        "fn finish_row(at: u32, scale: f32) {",
        f"let s = array({', '.join(f's{i}' for i in values)});",
        f"for (var i = 0u; i < {len(values)}u; i++) {{ let v = s[i] * scale; {stores} }} }}",
    ]


def _row(fold: int, values: int) -> list[str]:
    heads: Sequence[int] = range(fold)
    each = " ".join
    sizes = {
        "LANES": 4,
        "FOLD": fold,
        "CHUNK": _SCORES // fold // 4 * 4,
        "VALUES": -(-values // 32) * 32,
    }
    return [
        *(f"const {name} = {n}u;" for name, n in sizes.items()),
        "alias folded = array<f32, FOLD>;",
        "fn products(from_q: u32, from_k: u32) -> folded {",
        each(f"var s{h} = vec4<f32>();" for h in heads),
        "for (var d = 0u; d < P(11u); d += 4u) { let k = quad_k(from_k + d);",
        each(f"s{h} = fma(quad_q(from_q + {h}u * P(17u) + d), k, s{h});" for h in heads),
        "} return folded(" + ", ".join(f"dot(s{h}, vec4<f32>(1.0))" for h in heads) + "); }",
        "fn add_values(c: u32, across: u32, count: u32, from_v: u32, fade: folded) {",
        each(f"var s{h} = sums[{h}u * across + c] * fade[{h}];" for h in heads),
        "for (var i = 0u; i < count; i++) { let v = quad_v(from_v + i * P(26u));",
        each(f"s{h} = fma(v, vec4<f32>(weights[i * FOLD + {h}u]), s{h});" for h in heads),
        "}",
        each(f"sums[{h}u * across + c] = s{h};" for h in heads),
        "}",
    ]
