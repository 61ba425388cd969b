"""WGSL that reads packed rows (basis/packed.py) as floats, one or four at a time."""

from __future__ import annotations

from functools import cache

from rushlight.core.basis.packed import packed_bytes


@cache
def lines(name: str, binding: int, features: int, start: int) -> tuple[str, ...]:
    """Lines that bind packed rows and define load_NAME(i) and quad_NAME(i), i a place in bytes.

    start: the number of the parameter that says where the first row lies. quad_NAME reads the bytes
    from i on, a multiple of four.
    """
    return (
        f"@group(0) @binding({binding}) var<storage, read> {name}_words: array<u32>;",
        f"fn scale_{name}(i: u32) -> f32 {{ let d = (i - P({start}u)) % {packed_bytes(features)}u; "
        f"let at = i - d + {features}u + d / 32u * 2u; "
        f"return f16_value(extractBits({name}_words[at >> 2u], (at & 2u) * 8u, 16u)); }}",
        f"fn load_{name}(i: u32) -> f32 {{ return scale_{name}(i) * "
        f"f32(extractBits(bitcast<i32>({name}_words[i >> 2u]), (i & 3u) * 8u, 8u)); }}",
        f"fn quad_{name}(i: u32) -> vec4<f32> {{ let w = {name}_words[i >> 2u]; "
        "let v = bitcast<vec4<i32>>(vec4<u32>(w << 24u, w << 16u, w << 8u, w)) >> vec4<u32>(24u); "
        f"return vec4<f32>(v) * scale_{name}(i); }}",
    )
