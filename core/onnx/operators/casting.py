"""Casts between all element types: narrow floats by their own rounding, integers by their bits, texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import (
    BFLOAT16,
    BOOL,
    FLOAT4E2M1,
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    FLOAT16,
    STRING,
    ElementType,
    element_type,
)
from rushlight.core.onnx.operators.common import host_array, is_text
from rushlight.core.onnx.registry import Call, operator

# Of each narrow float: bits of the fraction, the exponent of the least normal number, the greatest
# number, and what is beyond that where a cast does not saturate.
_NARROW = {
    FLOAT8E4M3FN: (3, -6, 448.0, np.nan),
    FLOAT8E4M3FNUZ: (3, -7, 240.0, np.nan),
    FLOAT8E5M2: (2, -14, 57344.0, np.inf),
    FLOAT8E5M2FNUZ: (2, -15, 57344.0, np.nan),
    FLOAT4E2M1: (1, 0, 6.0, 6.0),
}
_WITHOUT_MINUS_ZERO = (FLOAT8E4M3FNUZ, FLOAT8E5M2FNUZ)


@operator("Cast")
def cast(call: Call, x: Any) -> Any:
    """The values in the type `to`."""
    return _cast(call, x, element_type(call.int("to"), call.title))


@operator("CastLike")
def cast_like(call: Call, x: Any, like: Any) -> Any:
    """The values in the type of the second input."""
    kind = STRING if is_text(like) else call.kinds[1]
    if kind is None:
        raise call.fail("the second input has no element type")
    return _cast(call, x, kind)


def _cast(call: Call, x: Any, kind: ElementType) -> Any:
    saturate = call.flag("saturate", True)
    mode = call.choice("round_mode", "up", "up", "down", "nearest")
    call.result_kinds = [kind]
    source = call.kinds[0]
    if kind is STRING:
        return x if is_text(x) else _texts(host_array(call, x), source)
    if is_text(x):
        return _numbers(call, x, kind)
    return converted(x, kind, saturate, mode, source)


def converted(
    x: Any, kind: ElementType, saturate: bool = True, mode: str = "up", source: Any = None
) -> Any:
    """A tensor's values rounded to an element type, in the dtype that carries it."""
    if kind is source:
        return x
    if kind is BOOL:
        return x != 0
    if x.dtype.kind == "b":
        return x.to(kind.carried)
    if kind in _NARROW:
        return rounded(x.to("float32"), kind, saturate)
    if kind is FLOAT8E8M0:
        return _power_of_two(x.to("float32"), saturate, mode)
    if kind in (FLOAT16, BFLOAT16):
        narrower = source is not None and source.is_float and source.bits < 16
        return x.to("float32") if narrower else x.to(kind.declared).to("float32")
    if kind.bits < 8:
        return _few_bits(x, kind)
    return x.to(kind.carried)


def _few_bits(x: Any, kind: ElementType) -> Any:
    """Integers of 2 or 4 bits: the lowest bits of integers; floats are cut off and held in range."""
    signed = kind.name.startswith("int")
    if x.dtype.kind == "f":
        low = -(1 << kind.bits - 1) if signed else 0
        return rl.clamp(rl.trunc(x), low, low + (1 << kind.bits) - 1).to(kind.carried)
    wide = x.to("int32") & (1 << kind.bits) - 1
    half = 1 << kind.bits - 1
    return ((wide ^ half) - half if signed else wide).to(kind.carried)


def rounded(x: Any, kind: ElementType, saturate: bool) -> Any:
    """float32 numbers rounded to the nearest of a narrow float type, ties to the even one."""
    fraction, least, greatest, beyond = _NARROW[kind]
    drop = 23 - fraction
    bits = x.view("int32")
    even = rl.bitwise_right_shift(bits, drop) & 1
    near = ((bits + ((1 << drop - 1) - 1) + even) & -(1 << drop)).view("float32")
    unit = 2.0 ** (least - fraction)
    near = rl.where(rl.abs(x) < 2.0**least, rl.round(x / unit) * unit, near)
    over = rl.abs(near) > greatest
    edge = greatest if saturate else beyond
    near = rl.where(over, rl.where(x < 0, -edge, edge).to(x.dtype), near)
    if kind in _WITHOUT_MINUS_ZERO:
        near = rl.where(near == 0, 0.0, near)
        if not saturate:
            return rl.where(rl.isfinite(x), near, float("nan"))
    return rl.where(rl.isnan(x), x, near)


def _power_of_two(x: Any, saturate: bool, mode: str) -> Any:
    """float32 numbers as powers of two from -127 to 127."""
    bits = x.view("int32") & 0x7FFFFFFF
    exponent, fraction = rl.bitwise_right_shift(bits, 23), bits & 0x7FFFFF
    if mode == "up":
        exponent = exponent + (fraction > 0).to("int32")
    elif mode == "nearest":
        exponent = exponent + (fraction >= 0x400000).to("int32")
    outside = (exponent > 254) | ((x == 0) if not saturate else (exponent < 0))
    exponent = rl.clamp(exponent, 0, 254)
    # The bits of 2**-127 are those of a number below the normal ones.
    code = rl.where(exponent == 0, 0x400000, exponent * (1 << 23)).to("int32")
    power = code.view("float32")
    if not saturate:
        power = rl.where(outside, float("nan"), power)
    return rl.where(rl.isnan(x), x, power)


def _texts(values: Any, source: ElementType | None) -> Any:
    """Numbers as texts: floats with as few digits as tell them apart in their type."""
    if values.dtype.kind == "f" and source is FLOAT16:
        values = values.astype(np.float16)
    texts = [_text(v) for v in values.reshape(-1)]
    return np.array(texts, np.object_).reshape(values.shape)


def _text(value: Any) -> str:
    if isinstance(value, np.floating):
        return str(value)
    return str(int(value)) if not isinstance(value, np.bool_) else str(bool(value))


def _numbers(call: Call, texts: Any, kind: ElementType) -> Any:
    """Texts as numbers: decimal ones, INF and NaN in letters of any case."""
    if kind.carried is None:
        raise call.fail(f"texts do not become {kind.name}")
    whole = kind.carried.kind in "iu"
    try:
        numbers = [_number(str(t), whole) for t in texts.reshape(-1)]
    except ValueError as error:
        raise call.fail(f"a text is no number: {error}") from None
    dtype = np.dtype(kind.carried.numpy)
    if kind is BOOL:
        return np.array([bool(n) for n in numbers], np.bool_).reshape(texts.shape)
    values = np.array(numbers, object).astype(dtype).reshape(texts.shape)
    if kind is FLOAT16:
        return values.astype(np.float16).astype(np.float32)
    return values


def _number(text: str, whole: bool) -> Any:
    if not whole:
        return float(text)
    try:
        return int(text)
    except ValueError:
        return int(float(text))


@operator("BitCast")
def bit_cast(call: Call, x: Any) -> Any:
    """The bits of elements read as those of another type of the same width."""
    kind, source = element_type(call.int("to"), call.title), call.kinds[0]
    call.result_kinds = [kind]
    if source is None or source.bits != kind.bits:
        raise call.fail(f"{source.name if source else 'this'} and {kind.name} differ in width")
    if source is kind:
        return x
    if kind.bits < 8 and not source.is_float and not kind.is_float:
        return _few_bits(x.to("int32"), kind)
    if source.declared is None or kind.declared is None:
        raise call.fail(f"the bits of {source.name} as {kind.name} are not supported")
    if x.dtype.kind == "b":
        x = x.to("uint8")
    stored = x.to(source.declared) if source is not BOOL else x
    if kind is BOOL:
        return stored.view("uint8") != 0
    return stored.view(kind.declared).to(kind.carried)
