"""WGSL with which product kernels read operands of any dtype, four elements at a time.

A kernel that has `quad_NAME(i)` reads elements i to i + 3 as a vec4<f32>, i a multiple of four;
`one_NAME(i)` reads a single element, for the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.codegen.blocks import plane_slices
from rushlight.core.backends.webgpu.codegen.formula import Reading, dot, quad, run, run_bytes
from rushlight.core.backends.webgpu.codegen.planes import codebook_of, is_whole, planes_of
from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.backends.webgpu.runtime.recorder import Slice
from rushlight.core.basis.dtype import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32
from rushlight.core.basis.layout import Layout

# dtype -> (type of the binding's elements, four values of `w`)
_QUADS: dict[DType, tuple[str, str]] = {
    float32: ("vec4<u32>", "bitcast<vec4<f32>>(w)"),
    float16: ("vec2<u32>", "vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y))"),
    bfloat16: (
        "vec2<u32>",
        "bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, "
        "w.y & 0xffff0000u))",
    ),
}
for _dtype, _name in ((float8_e4m3fn, "f8e4m3"), (float8_e5m2, "f8e5m2")):
    _QUADS[_dtype] = (
        "u32",
        f"vec4<f32>({_name}_value(w & 255u), {_name}_value((w >> 8u) & 255u), "
        f"{_name}_value((w >> 16u) & 255u), {_name}_value(w >> 24u))",
    )


def bindings_of(dtype: DType) -> int:
    """How many bindings an operand takes: one, or one per plane of blocks and for a codebook."""
    if dtype.kind != "q":
        return 1
    return len(planes_of(dtype)) + (codebook_of(dtype) is not None)


def label(file: str, dtype: DType) -> str:
    """What a profile calls a kernel that reads `dtype`: it says of blocks that they lie whole."""
    return f"{file} (whole)" if dtype.kind == "q" and is_whole(dtype) else file


@cache
def lines(name: str, first: int, dtype: DType, quads: bool, half: bool) -> tuple[str, ...]:
    """WGSL that binds an operand from binding `first` on and defines quad_NAME and one_NAME.

    quads: element i lies at a multiple of four wherever quad_NAME is asked for it; otherwise
    there is one_NAME only. half: the adapter has shader-f16.
    """
    if dtype.kind == "q":
        return _block_lines(name, first, dtype)
    if not quads:
        return (
            access.reader(name, first, dtype),
            f"fn one_{name}(i: u32) -> f32 {{ return load_{name}(i); }}",
            f"fn quad_{name}(i: u32) -> vec4<f32> {{ return vec4<f32>(load_{name}(i), "
            f"load_{name}(i + 1u), load_{name}(i + 2u), load_{name}(i + 3u)); }}",
        )
    element, value = _QUADS[dtype]
    enable: tuple[str, ...] = ()
    if half and dtype is float16:
        element, value, enable = "vec4<f16>", "vec4<f32>(w)", ("enable f16;",)
    store = f"@group(0) @binding({first}) var<storage, read> {name}_quads: array<{element}>;"
    return (
        *enable,
        store,
        f"fn quad_{name}(i: u32) -> vec4<f32> {{ let w = {name}_quads[i >> 2u]; return {value}; }}",
        f"fn one_{name}(i: u32) -> f32 {{ return quad_{name}(i & 0xfffffffcu)[i & 3u]; }}",
    )


def run_lines(first: int, dtype: DType, file: str) -> tuple[str, ...] | None:
    """WGSL that binds blocks from binding `first` on and defines what the text of a kernel reads
    runs by, block_dot or formula_run; see formula.py. None where it reads elements."""
    for function, reading in (("block_dot", dot), ("formula_run", run), ("run_bytes", run_bytes)):
        if function in file and (made := reading(dtype)) is not None:
            return _reading_lines(first, dtype, made)
    return None


def _block_lines(name: str, first: int, dtype: DType) -> tuple[str, ...]:
    return (
        *_reading_lines(first, dtype, quad(dtype)),
        f"fn quad_{name}(i: u32) -> vec4<f32> {{ return formula_quad(i); }}",
        f"fn one_{name}(i: u32) -> f32 {{ return quad_{name}(i & 0xfffffffcu)[i & 3u]; }}",
    )


def _reading_lines(first: int, dtype: DType, reading: Reading) -> tuple[str, ...]:
    """A function that reads blocks, and the bindings from `first` on."""
    names = [
        f"plane_{k}: array<{'u32' if k in reading.single else 'vec4<u32>'}>"
        for k in range(len(planes_of(dtype)))
    ] + ["codebook: array<u32>"]
    bindings = zip(range(first, first + bindings_of(dtype)), names, strict=False)
    return (
        *(f"@group(0) @binding({k}) var<storage, read> {name};" for k, name in bindings),
        *reading.lines,
    )


def bind(e: Emitter, x: Operand, layout: Layout) -> tuple[list[Slice], int, list[int]]:
    """Bindings for `x`, where its first element lies in them, and the parameters from 48 on.

    For blocks the parameters say how far the block numbers of each plane are off.
    """
    if x.dtype.kind == "q":
        slices, shifts = plane_slices(e, x, layout)
        if book := codebook_of(x.dtype):
            slices.append(e.recorder.constant(book.name, book.words.view(np.uint8)))
        return slices, layout.offset, shifts
    bound, start = e.bind(x, layout)
    nbytes = min(-(-bound.nbytes // 16) * 16, bound.buffer.nbytes - bound.offset)
    return [Slice(bound.buffer, bound.offset, nbytes)], start, []


def aligned(dtype: DType, numbers: Sequence[int]) -> bool:
    """Whether offsets and strides let elements be read four at a time."""
    return dtype.kind == "q" or all(n % 4 == 0 for n in numbers)
