"""The quantized rows of the dtype table: llama.cpp's block types (ggml-common.h), one each.

A row is a function decorated with `_blocks`. The function's name is the dtype's name; ggml's struct
is `block_` and that name. `_blocks` takes the elements per block, ggml's number of the type, and
the fields in memory order. Every public name of this module is a row and becomes a public name of
rushlight.

The function returns element i of a block b as float32. Every device runs the same function: on
NumPy arrays on cpu, and on expressions that become WGSL on webgpu. So it may use only

- fields: `b.d`, a single number, and `b.qs[n]`, one of several;
- `+ - * // % << >> & | <` on numbers. Integers stay within 16 bits and are not negative where
  they are divided or shifted. With a float operand they become floats;
- `b.where(condition, x, y)`, `b.lookup(numbers, n)` with a tuple or a codebook, and
  `b.as_f16(low, high)`, the float16 of two bytes.

Results are bit-identical to ggml's if the float operations are in ggml's order, or are exact: a
float16 has 11 bits, so it may be multiplied by 13 more.
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

import numpy as _np

from rushlight.core.basis import codebooks as _codebooks
from rushlight.core.basis.element import FIELD_BYTES as _BYTES
from rushlight.core.basis.element import DType as _DType
from rushlight.core.basis.element import Field as _Field


def _blocks(
    block: int, gguf: int | None, **fields: str
) -> _Callable[[_Callable[[_Any, _Any], _Any]], _DType]:
    """Make a row from a formula. fields: "f16" is a single number, "16 u8" are several."""
    layout, offset = {}, 0
    for name, said in fields.items():
        count, _, kind = said.rpartition(" ")
        layout[name] = _Field(kind, offset, int(count) if count else None)
        offset += _BYTES[kind] * int(count or 1)

    def row(value: _Callable[[_Any, _Any], _Any]) -> _DType:
        stored = _np.dtype(_np.uint8)
        return _DType(
            value.__name__, "q", offset, stored, block, gguf=gguf, fields=layout, value=value
        )

    return row


# 16 bytes hold 32 elements: the first half in their low four bits, the rest in the high four.


@_blocks(32, 2, d="f16", qs="16 u8")
def q4_0(b: _Any, i: _Any) -> _Any:
    """Four bits minus 8, times a scale."""
    return b.d * ((b.qs[i % 16] >> i // 16 * 4 & 15) - 8)


@_blocks(32, 3, d="f16", m="f16", qs="16 u8")
def q4_1(b: _Any, i: _Any) -> _Any:
    """Four bits times a scale, plus a minimum."""
    return b.d * (b.qs[i % 16] >> i // 16 * 4 & 15) + b.m


@_blocks(32, 6, d="f16", qh="4 u8", qs="16 u8")
def q5_0(b: _Any, i: _Any) -> _Any:
    """Five bits minus 16, times a scale; the fifth bits are stored apart."""
    fifth = (b.qh[i // 8] >> i % 8 & 1) << 4
    return b.d * ((b.qs[i % 16] >> i // 16 * 4 & 15 | fifth) - 16)


@_blocks(32, 7, d="f16", m="f16", qh="4 u8", qs="16 u8")
def q5_1(b: _Any, i: _Any) -> _Any:
    """Five bits times a scale, plus a minimum; the fifth bits are stored apart."""
    fifth = (b.qh[i // 8] >> i % 8 & 1) << 4
    return b.d * (b.qs[i % 16] >> i // 16 * 4 & 15 | fifth) + b.m


@_blocks(32, 8, d="f16", qs="32 i8")
def q8_0(b: _Any, i: _Any) -> _Any:
    """A signed byte times a scale."""
    return b.d * b.qs[i]


@_blocks(32, 9, d="f16", s="f16", qs="32 i8")
def q8_1(b: _Any, i: _Any) -> _Any:
    """A signed byte times a scale; s is the sum of the block, for products of blocks."""
    return b.d * b.qs[i]


def _two_bits(b: _Any, i: _Any) -> _Any:
    """Element i of 64 bytes: 32 of them hold 128 elements, the first 32 in their lowest bits."""
    return b.qs[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3


@_blocks(256, 10, scales="16 u8", qs="64 u8", d="f16", dmin="f16")
def q2_k(b: _Any, i: _Any) -> _Any:
    """Two bits times a scale, less a minimum; scale and minimum of 16 elements have four bits."""
    scale = b.scales[i // 16]
    return b.d * (scale & 15) * _two_bits(b, i) - b.dmin * (scale >> 4)


@_blocks(256, 11, hmask="32 u8", qs="64 u8", scales="12 u8", d="f16")
def q3_k(b: _Any, i: _Any) -> _Any:
    """Three bits minus 4, times a scale; the scale of 16 elements has six bits, minus 32."""
    j = i // 16
    low, high = b.scales[j % 8] >> j // 8 * 4 & 15, b.scales[8 + j % 4] >> j // 4 * 2 & 3
    third = b.hmask[i % 32] >> i // 32 & 1
    return b.d * ((low | high << 4) - 32) * ((_two_bits(b, i) | third << 2) - 4)


def _six_bits(b: _Any, j: _Any) -> tuple[_Any, _Any]:
    """Scale and minimum of the 32 elements number j: four bits, then two, of the later ones."""
    four, scale, least = b.scales[8 + j % 4], b.scales[j % 4], b.scales[4 + j % 4]
    return (
        b.where(j < 4, scale & 63, four & 15 | scale >> 6 << 4),
        b.where(j < 4, least & 63, four >> 4 | least >> 6 << 4),
    )


@_blocks(256, 12, d="f16", dmin="f16", scales="12 u8", qs="128 u8")
def q4_k(b: _Any, i: _Any) -> _Any:
    """Four bits times a scale, less a minimum; both of 32 elements, with six bits."""
    scale, least = _six_bits(b, i // 32)
    return b.d * scale * (b.qs[i // 64 * 32 + i % 32] >> i // 32 % 2 * 4 & 15) - b.dmin * least


@_blocks(256, 13, d="f16", dmin="f16", scales="12 u8", qh="32 u8", qs="128 u8")
def q5_k(b: _Any, i: _Any) -> _Any:
    """Five bits times a scale, less a minimum, as in q4_k; the fifth bits are stored apart."""
    scale, least = _six_bits(b, i // 32)
    low, high = b.qs[i // 64 * 32 + i % 32] >> i // 32 % 2 * 4 & 15, b.qh[i % 32] >> i // 32 & 1
    return b.d * scale * (low | high << 4) - b.dmin * least


@_blocks(256, 14, ql="128 u8", qh="64 u8", scales="16 i8", d="f16")
def q6_k(b: _Any, i: _Any) -> _Any:
    """Six bits minus 32, times two scales, one of 16 elements and one of the block."""
    low = b.ql[i // 128 * 64 + i % 64] >> i // 64 % 2 * 4 & 15
    high = b.qh[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3
    return b.d * b.scales[i // 16] * ((low | high << 4) - 32)


@_blocks(256, 15, d="f32", qs="256 i8", bsums="32 u8")
def q8_k(b: _Any, i: _Any) -> _Any:
    """A signed byte times a float32 scale; bsums are sums, for products of blocks."""
    return b.d * b.qs[i]


# Four bits that are the place of a number in a table.
_CURVE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_TWICE_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


@_blocks(32, 20, d="f16", qs="16 u8")
def iq4_nl(b: _Any, i: _Any) -> _Any:
    """One of 16 numbers, dense around zero, times a scale."""
    return b.d * b.lookup(_CURVE, b.qs[i % 16] >> i // 16 * 4 & 15)


@_blocks(256, 23, d="f16", high="2 u8", low="4 u8", qs="128 u8")
def iq4_xs(b: _Any, i: _Any) -> _Any:
    """The numbers of iq4_nl times two scales; that of 32 elements has six bits, minus 32."""
    j = i // 32
    scale = b.low[j // 2] >> j % 2 * 4 & 15 | (b.high[j // 4] >> j % 4 * 2 & 3) << 4
    return b.d * (scale - 32) * b.lookup(_CURVE, b.qs[j * 16 + i % 16] >> i // 16 % 2 * 4 & 15)


@_blocks(32, 39, e="e8m0", qs="16 u8")
def mxfp4(b: _Any, i: _Any) -> _Any:
    """A float of four bits times a power of two: MXFP4 of OCP Microscaling Formats 1.0."""
    return b.e * b.lookup(_TWICE_E2M1, b.qs[i % 16] >> i // 16 * 4 & 15)


@_blocks(64, 40, d="4 ue4m3", qs="32 u8")
def nvfp4(b: _Any, i: _Any) -> _Any:
    """A float of four bits times a scale of 16 elements, a float of four and three bits."""
    j = i // 16
    return b.d[j] * b.lookup(_TWICE_E2M1, b.qs[j * 8 + i % 8] >> i // 8 % 2 * 4 & 15)


@_blocks(256, 34, qs="48 u8", qh="4 u8", d="f16")
def tq1_0(b: _Any, i: _Any) -> _Any:
    """-1, 0 or 1 times a scale: digits of base 3, five to a byte, and four in the last bytes.

    A byte is a fraction of 256 whose first digit is that before the point if it is tripled. The
    first 32 bytes hold 160 elements, the next 16 hold 80, the last 4 hold 16.
    """
    j, k = i % 80, i // 4 % 4
    byte = b.where(i < 160, b.qs[i % 32], b.where(i < 240, b.qs[32 + j % 16], b.qh[i % 4]))
    digit = b.where(i < 160, i // 32, b.where(i < 240, j // 16, k))
    rest = byte * b.lookup((1, 3, 9, 27, 81, 0, 0, 0), digit % 8) & 255
    return b.d * ((rest * 3 >> 8) - 1)


@_blocks(256, 35, qs="64 u8", d="f16")
def tq2_0(b: _Any, i: _Any) -> _Any:
    """-1, 0, 1 or 2 times a scale."""
    return b.d * (_two_bits(b, i) - 1)


@_blocks(128, 41, d="f16", qs="16 u8")
def q1_0(b: _Any, i: _Any) -> _Any:
    """-1 or 1 times a scale."""
    return b.d * ((b.qs[i // 8] >> i % 8 & 1) * 2 - 1)


@_blocks(64, 42, d="f16", qs="16 u8")
def q2_0(b: _Any, i: _Any) -> _Any:
    """-1, 0, 1 or 2 times a scale; neighbours share a byte."""
    return b.d * ((b.qs[i // 4] >> i % 4 * 2 & 3) - 1)


# Points of codebooks (QuIP#'s idea): eight or four elements have one number. Signs are apart.


def _sign(bits: _Any, n: _Any) -> _Any:
    """-1 if bit n is set, else 1."""
    return 1 - (bits >> n & 1) * 2


def _even_sign(b: _Any, first: _Any, i: _Any) -> _Any:
    """The sign of element i % 32, of signs[first]: seven bits for eight, evenly many minus."""
    bit = i // 8 % 4 * 7
    low, high = b.signs[first + bit // 8], b.signs[first + bit // 8 + 1]
    return _seven_signs((low >> bit % 8 | (high & 127) << 8 - bit % 8) & 127, i % 8)


def _seven_signs(bits: _Any, n: _Any) -> _Any:
    """The sign number n of eight; the last makes the number of the negative ones even."""
    pairs = (bits & 85) + (bits >> 1 & 85)
    fours = (pairs & 51) + (pairs >> 2 & 51)
    return _sign(bits | (fours + (fours >> 4) & 1) << 7, n)


def _of_three(b: _Any, codes: _codebooks.Codebook, point: _Any, i: _Any) -> _Any:
    """8, 25 or 43: coordinate i % 8 of a point."""
    code = b.lookup(codes, point * 8 + i % 8)
    return 8 + code * 17 + code // 2


@_blocks(256, 16, d="f16", signs="64 u8")
def iq2_xxs(b: _Any, i: _Any) -> _Any:
    """Of 32 elements: four points, their signs, and four bits of the scale, in 8 bytes."""
    first = i // 32 * 8
    point = b.signs[first + i // 8 % 4]
    scale = b.d * ((b.signs[first + 7] >> 4) * 2 + 1) * 0.125
    return scale * (_of_three(b, _codebooks.iq2_xxs, point, i) * _even_sign(b, first + 4, i))


@_blocks(256, 17, d="f16", qs="64 u8", scales="8 u8")
def iq2_xs(b: _Any, i: _Any) -> _Any:
    """Points with nine bits and signs with seven, in two bytes; four bits of the scale of 16."""
    low, high = b.qs[i // 8 * 2], b.qs[i // 8 * 2 + 1]
    scale = b.d * ((b.scales[i // 32] >> i // 16 % 2 * 4 & 15) * 2 + 1) * 0.125
    value = _of_three(b, _codebooks.iq2_xs, low | (high & 1) << 8, i)
    return scale * (value * _seven_signs(high >> 1, i % 8))


@_blocks(256, 22, d="f16", qs="32 u8", signs="32 u8", qh="8 u8", scales="8 u8")
def iq2_s(b: _Any, i: _Any) -> _Any:
    """Points with ten bits, a sign for each element, four bits of the scale of 16."""
    point = b.qs[i // 8] | (b.qh[i // 32] >> i // 8 % 4 * 2 & 3) << 8
    scale = b.d * ((b.scales[i // 32] >> i // 16 % 2 * 4 & 15) * 2 + 1) * 0.125
    return scale * (_of_three(b, _codebooks.iq2_s, point, i) * _sign(b.signs[i // 8], i % 8))


@_blocks(256, 18, d="f16", qs="64 u8", signs="32 u8")
def iq3_xxs(b: _Any, i: _Any) -> _Any:
    """Points of four elements with eight bits; signs and four bits of the scale as in iq2_xxs."""
    code, first = b.lookup(_codebooks.iq3_xxs, b.qs[i // 4] * 4 + i % 4), i // 32 * 4
    scale = b.d * ((b.signs[first + 3] >> 4) * 2 + 1) * 0.25
    return scale * ((4 + code * 8 + code // 7 * 2) * _even_sign(b, first, i))


@_blocks(256, 21, d="f16", qs="64 u8", qh="8 u8", signs="32 u8", scales="4 u8")
def iq3_s(b: _Any, i: _Any) -> _Any:
    """Points of four elements with nine bits, a sign for each, four bits of the scale of 32."""
    point = b.qs[i // 4] | (b.qh[i // 32] >> i // 4 % 8 & 1) << 8
    value = b.lookup(_codebooks.iq3_s, point * 4 + i % 4) * 2 + 1
    scale = b.d * ((b.scales[i // 64] >> i // 32 % 2 * 4 & 15) * 2 + 1)
    return scale * (value * _sign(b.signs[i // 8], i % 8))


def _of_one(b: _Any, point: _Any, down: _Any, i: _Any) -> _Any:
    """Eight times -1, 0 or 1, plus 1 or minus 1: coordinate i % 8 of a shifted point."""
    return b.lookup(_codebooks.iq1_s, point * 8 + i % 8) * 8 - 7 - down * 2


@_blocks(256, 19, d="f16", qs="32 u8", qh="16 u8")
def iq1_s(b: _Any, i: _Any) -> _Any:
    """Points with eleven bits; three bits of the scale and the shift of 32 elements."""
    low, high = b.qh[i // 32 * 2], b.qh[i // 32 * 2 + 1]
    point = b.qs[i // 8] | ((low | (high & 15) << 8) >> i // 8 % 4 * 3 & 7) << 8
    return b.d * ((high >> 4 & 7) * 2 + 1) * 0.125 * _of_one(b, point, high >> 7, i)


@_blocks(256, 29, qs="32 u8", qh="16 u8", scales="8 u8")
def iq1_m(b: _Any, i: _Any) -> _Any:
    """The points of iq1_s, each with a shift; three bits of the scale of 16 elements.

    The scale of the block, a float16, lies four bits each in the highest of the four scale words.
    """
    j, scales = i // 64 * 2, b.scales
    d = b.as_f16(scales[1] >> 4 | scales[3] & 240, scales[5] >> 4 | scales[7] & 240)
    scale = (scales[j] | (scales[j + 1] & 15) << 8) >> i // 16 % 4 * 3 & 7
    high = b.qh[i // 16] >> i // 8 % 2 * 4 & 15
    point = b.qs[i // 8] | (high & 7) << 8
    return d * (scale * 2 + 1) * 0.125 * _of_one(b, point, high >> 3, i)


# Rows of ONNX's operators on packed weights (MatMulNBits and its kin), which ggml has not: scales
# are float32 where a float16 does not hold them, zero points are numbers of their own. A name says
# the bits and how many elements share a scale. Four bits lie in the order of q4_0.


def _four_bits(b: _Any, i: _Any) -> _Any:
    """Element i of halves of 16 bytes: the first 16 of 32 in the low four bits."""
    return b.qs[i // 32 * 16 + i % 16] >> i // 16 % 2 * 4 & 15


@_blocks(32, None, d="f32", z="u8", qs="8 u8")
def n2_32(b: _Any, i: _Any) -> _Any:
    """Two bits less a zero point, times a float32 scale; neighbours share a byte."""
    return b.d * ((b.qs[i // 4] >> i % 4 * 2 & 3) - (b.z & 3))


@_blocks(32, None, d="2 f32", z="2 u8", qs="16 u8")
def n4_16(b: _Any, i: _Any) -> _Any:
    """Four bits less a zero point, times a float32 scale; 16 elements share them."""
    return b.d[i // 16] * (_four_bits(b, i) - (b.z[i // 16] & 15))


@_blocks(32, None, d="f32", z="u8", qs="16 u8")
def n4_32(b: _Any, i: _Any) -> _Any:
    """Four bits less a zero point, times a float32 scale; 32 elements share them."""
    return b.d * (_four_bits(b, i) - (b.z & 15))


@_blocks(64, None, d="f32", z="u8", qs="32 u8")
def n4_64(b: _Any, i: _Any) -> _Any:
    """Four bits less a zero point, times a float32 scale; 64 elements share them."""
    return b.d * (_four_bits(b, i) - (b.z & 15))


@_blocks(128, None, d="f32", z="u8", qs="64 u8")
def n4_128(b: _Any, i: _Any) -> _Any:
    """Four bits less a zero point, times a float32 scale; 128 elements share them."""
    return b.d * (_four_bits(b, i) - (b.z & 15))


@_blocks(32, None, d="f16", z="u8", qs="16 u8")
def h4_32(b: _Any, i: _Any) -> _Any:
    """Four bits less a zero point, times a float16 scale; 32 elements share them."""
    return b.d * (_four_bits(b, i) - (b.z & 15))


@_blocks(32, None, d="f32", qs="32 i8")
def n8_32(b: _Any, i: _Any) -> _Any:
    """A signed byte times a float32 scale; 32 share it."""
    return b.d * b.qs[i]
