"""The quantized rows of the dtype table: llama.cpp's block types (ggml-common.h), one each.

A row is a function decorated with `_blocks`. The function's name is the dtype's name. `_blocks`
takes the elements per block, ggml's number of the type, and the fields in memory order. Every
public name of this module is a row and becomes a public name of rushlight.

The function returns element i of a block b as float32. Every device runs the same function: on
NumPy arrays on cpu, and on expressions that become WGSL on webgpu. So it may use only

- fields: `b.d`, a single number, and `b.qs[n]`, one of several;
- `+ - * // % << >> & | <` on numbers. Integers stay within 16 bits and are not negative where
  they are divided or shifted. With a float operand they become floats;
- `b.where(condition, x, y)` and `b.lookup(numbers, n)`.

Results are bit-identical to ggml's if the float operations are in ggml's order.
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

import numpy as _np

from rushlight.core.basis.element import DType as _DType
from rushlight.core.basis.element import Field as _Field

_BYTES = {"u8": 1, "i8": 1, "e8m0": 1, "f16": 2}


def _blocks(
    block: int, gguf: int | None, **fields: str
) -> _Callable[[_Callable[[_Any, _Any], _Any]], _DType]:
    """Make a row from a formula. fields: "f16" is a single number, "16 u8" are several."""
    found, at = {}, 0
    for name, said in fields.items():
        count, _, kind = said.rpartition(" ")
        found[name] = _Field(kind, at, int(count) if count else None)
        at += _BYTES[kind] * int(count or 1)

    def row(value: _Callable[[_Any, _Any], _Any]) -> _DType:
        stored = _np.dtype(_np.uint8)
        return _DType(
            value.__name__, "q", at, stored, block, gguf=gguf, fields=found, value=value
        )  # fmt: skip

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


@_blocks(256, 14, ql="128 u8", qh="64 u8", scales="16 i8", d="f16")
def q6_k(b: _Any, i: _Any) -> _Any:
    """Six bits minus 32, times two scales, one of 16 elements and one of the block."""
    low = b.ql[i // 128 * 64 + i % 64] >> i // 64 % 2 * 4 & 15
    high = b.qh[i // 128 * 32 + i % 32] >> i // 32 % 4 * 2 & 3
    return b.d * b.scales[i // 16] * ((low | high << 4) - 32)
