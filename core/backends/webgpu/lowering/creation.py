"""Lowerings of constants and ranges, and of conversions between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, bits, word
from rushlight.core.backends.webgpu.lowering.map import emit_map, move
from rushlight.core.basis.dtype import DType, bool_, int64


def fill_word(op: str, value: Any, dtype: DType) -> int:
    """Parameter bits of `value` as the WGSL type that `dtype` is computed in."""
    kind = access.value_type(dtype)
    if kind == "f32":
        with np.errstate(over="ignore"):
            return bits(float(np.float32(value)))
    if dtype is bool_:
        return int(bool(value))
    info = np.iinfo(np.int32 if dtype is int64 else dtype.numpy)
    try:
        integer = int(value)
    except (OverflowError, ValueError):
        raise ValueError(f"{value} does not fit dtype {dtype.name}") from None
    if not info.min <= integer <= info.max:
        if dtype is int64 and -(2**63) <= integer < 2**63:
            raise OverflowError(
                f"{op}: {integer} is beyond the 32 bits that webgpu holds int64 in; compute on cpu"
            )
        raise ValueError(f"{value} does not fit dtype {dtype.name}")
    return word(integer)


def full(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """All elements equal."""
    value = fill_word(e.op, attrs["value"], out.dtype)
    kind = access.value_type(out.dtype)
    constant = {"f32": "F(6u)", "i32": "bitcast<i32>(P(6u))", "u32": "P(6u)"}[kind]
    emit_map(e, constant, [], out, "full", extra=[value])


def arange(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """start + i * step; in integers if both are integers."""
    start, step = attrs["start"], attrs["step"]
    kind = access.value_type(out.dtype)
    if isinstance(start, int) and isinstance(step, int) and kind != "f32":
        last = start + step * max(attrs["count"] - 1, 0)
        for v in (start, last):
            fill_word(e.op, v, out.dtype)
        value = "P(6u) + i * P(7u)"
        value = f"bitcast<i32>({value})" if kind == "i32" else value
        emit_map(e, value, [], out, "arange", extra=[word(start), word(step)])
        return
    integral = isinstance(start, int) and isinstance(step, int)
    far = max(abs(start), abs(start + step * attrs["count"])) < 2**31 if integral else False
    if integral and far:
        value = "f32(bitcast<i32>(P(6u) + i * P(7u)))"
        emit_map(e, value, [], out, "arange", extra=[word(start), word(step)])
        return
    value = "F(6u) + f32(i) * F(7u)"
    if kind != "f32":
        value = f"{kind}({value})"
    emit_map(e, value, [], out, "arange", extra=[bits(start), bits(step)])


def cast(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Convert dtypes; floats out of range become the nearest integer, nan becomes 0."""
    x = inputs[0]
    assert x is not None
    if x.dtype is out.dtype:
        move(e, x, out)
        return
    expression = cast_note(x.dtype, out.dtype)
    if expression:
        code = e.status.code("to", "overflow")
        emit_map(e, expression, [x], out, "cast", extra=[code], notes=True)
        return
    emit_map(e, cast_expression(x.dtype, out.dtype), [x], out, "cast")


def cast_note(source: DType, target: DType) -> str:
    """WGSL that converts `a` and notes values beyond 32 bits; "" if all values fit."""
    small = source.itemsize == 1 and source.name != "float8_e5m2"
    if target is not int64 or access.value_type(source) == "i32" or small:
        return ""
    return "whole_64(a)" if source.kind == "f" else "unsigned_64(a)"


def cast_expression(source: DType, target: DType) -> str:
    """WGSL that converts `a`."""
    have, want = access.value_type(source), access.value_type(target)
    if target is bool_:
        return (
            "u32(a != 0)"
            if have == "i32"
            else "u32(not_zero(a))"
            if have == "f32"
            else "u32(a != 0u)"
        )
    if want == "f32":
        return "a" if have == "f32" else "f32(a)"
    if have != "f32":
        return "a" if have == want else f"bitcast<{want}>(a)"
    if target is int64 or target.name == "int32":
        return "whole_i32(a)"
    if target.name == "uint32":
        return "whole_u32(a)"
    info = np.iinfo(target.numpy)
    return f"{want}(clamp(whole_i32(a), {info.min}, {info.max}))"


LOWERINGS = {"full": full, "arange": arange, "cast": cast}
