"""WGSL lines that declare a binding and read or write elements of its dtype.

int64 is held as 32-bit words. Several elements of a narrow dtype share a word, so an invocation
writes whole words: PER elements of BITS bits each.
"""

from __future__ import annotations

from functools import cache

from rushlight.core.basis.dtype import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# dtype -> (bytes on the device, WGSL type of values, value of word w's element i)
_READ: dict[DType, tuple[int, str, str]] = {
    float32: (4, "f32", "bitcast<f32>(WORDS[i])"),
    int32: (4, "i32", "bitcast<i32>(WORDS[i])"),
    int64: (4, "i32", "bitcast<i32>(WORDS[i])"),
    uint32: (4, "u32", "WORDS[i]"),
    float16: (2, "f32", "f16_value(extractBits(WORDS[i >> 1u], (i & 1u) * 16u, 16u))"),
    bfloat16: (2, "f32", "bf16_value(extractBits(WORDS[i >> 1u], (i & 1u) * 16u, 16u))"),
    uint16: (2, "u32", "extractBits(WORDS[i >> 1u], (i & 1u) * 16u, 16u)"),
    int16: (2, "i32", "extractBits(bitcast<i32>(WORDS[i >> 1u]), (i & 1u) * 16u, 16u)"),
    int8: (1, "i32", "extractBits(bitcast<i32>(WORDS[i >> 2u]), (i & 3u) * 8u, 8u)"),
    uint8: (1, "u32", "extractBits(WORDS[i >> 2u], (i & 3u) * 8u, 8u)"),
    bool_: (1, "u32", "extractBits(WORDS[i >> 2u], (i & 3u) * 8u, 8u)"),
    float8_e4m3fn: (1, "f32", "f8e4m3_value(extractBits(WORDS[i >> 2u], (i & 3u) * 8u, 8u))"),
    float8_e5m2: (1, "f32", "f8e5m2_value(extractBits(WORDS[i >> 2u], (i & 3u) * 8u, 8u))"),
}
_WRITE: dict[DType, str] = {
    float32: "bitcast<u32>(v)",
    int32: "bitcast<u32>(v)",
    int64: "bitcast<u32>(v)",
    uint32: "v",
    float16: "f16_bits(v)",
    bfloat16: "bf16_bits(v)",
    uint16: "v & 0xffffu",
    int16: "bitcast<u32>(v) & 0xffffu",
    int8: "bitcast<u32>(v) & 0xffu",
    uint8: "v & 0xffu",
    bool_: "u32(v != 0u)",
    float8_e4m3fn: "f8e4m3_bits(v)",
    float8_e5m2: "f8e5m2_bits(v)",
}


def check_dtype(name: str, dtype: DType) -> None:
    """Raise TypeError for a dtype that the device does not support."""
    if dtype is float64:
        raise TypeError(
            f"{name}: webgpu has no float64; convert with .to(rl.float32), or compute on cpu"
        )
    if dtype is uint64:
        raise TypeError(
            f"{name}: webgpu holds integers in 32 bits and has no uint64; convert with "
            ".to(rl.uint32), or compute on cpu"
        )
    if dtype.kind == "c":
        raise TypeError(f"{name}: webgpu has no {dtype.name}; compute on cpu, or move the parts")
    if dtype.kind != "q" and dtype not in _READ:
        raise TypeError(f"{name}: webgpu does not support {dtype.name}")


def width(dtype: DType) -> int:
    """Bytes of one element on the device (int64 takes four)."""
    return _READ[dtype][0]


def as_bits(dtype: DType) -> DType:
    """The integer dtype that represents the elements of `dtype` in copies."""
    return {4: uint32, 2: int16, 1: uint8}[_READ[dtype][0]]


def per_word(dtype: DType) -> int:
    """Elements in one 32-bit word."""
    return 4 // _READ[dtype][0]


def value_type(dtype: DType) -> str:
    """The WGSL type that elements are computed in: f32, i32 or u32."""
    return _READ[dtype][1]


@cache
def reader(name: str, binding: int, dtype: DType) -> str:
    """Lines that bind a read-only buffer and define load_NAME(i), the value of element i."""
    _, kind_, value = _READ[dtype]
    words = f"{name}_words"
    return (
        f"@group(0) @binding({binding}) var<storage, read> {words}: array<u32>;\n"
        f"fn load_{name}(i: u32) -> {kind_} {{ return {value.replace('WORDS', words)}; }}"
    )


@cache
def in_place_reader(name: str, dtype: DType) -> str:
    """load_NAME(i) of the buffer that is written, for the forms that work in place."""
    _, kind_, value = _READ[dtype]
    return f"fn load_{name}(i: u32) -> {kind_} {{ return {value.replace('WORDS', 'out_words')}; }}"


@cache
def writer(binding: int, dtype: DType) -> str:
    """Lines that bind out_words and define PER, BITS and encode(v), the bits of one element."""
    size, kind_, _ = _READ[dtype]
    return (
        f"@group(0) @binding({binding}) var<storage, read_write> out_words: array<u32>;\n"
        f"const PER = {4 // size}u;\nconst BITS = {8 * size}u;\n"
        f"alias out_value = {kind_};\n"
        f"fn encode(v: {kind_}) -> u32 {{ return {_WRITE[dtype]}; }}"
    )


def status(binding: int) -> str:
    """The line that binds the status word, for kernels that call `note`."""
    return f"@group(0) @binding({binding}) var<storage, read_write> status: array<atomic<u32>>;"
