"""Casts between all element types: of narrow floats, of integers of few bits, of texts."""

from __future__ import annotations

from functools import lru_cache
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
    carried_values,
    element_type,
    narrow_values,
)
from rushlight.core.onnx.operators.common import Array, as_tensor, host_array, is_text
from rushlight.core.onnx.registry import Call, operator

# Of each float of eight bits or fewer: the greatest number, and what is beyond it where a cast does
# not saturate.
_BEYOND = {
    FLOAT8E4M3FN: (448.0, np.nan),
    FLOAT8E4M3FNUZ: (240.0, np.nan),
    FLOAT8E5M2: (57344.0, np.inf),
    FLOAT8E5M2FNUZ: (57344.0, np.nan),
    FLOAT4E2M1: (6.0, 6.0),
    FLOAT8E8M0: (2.0**127, np.nan),
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
    if kind in _BEYOND:
        return rounded(x.to("float32"), kind, saturate, mode)
    if kind in (FLOAT16, BFLOAT16):
        narrower = source is not None and source.is_float and source.bits < 16
        return x.to("float32") if narrower else x.to(kind.declared).to("float32")
    if kind.bits < 8:
        return _few_bits(x, kind)
    return x.to(kind.carried)


def _few_bits(x: Any, kind: ElementType) -> Any:
    """Integers of 2 or 4 bits: the lowest bits of integers; floats are cut off first."""
    signed = kind.name.startswith("int")
    wide = x.to("int32") & (1 << kind.bits) - 1
    half = 1 << kind.bits - 1
    return ((wide ^ half) - half if signed else wide).to(kind.carried)


@lru_cache(None)
def _steps(kind: ElementType, mode: str) -> tuple[Array, Array]:
    """The numbers of a type that are not negative, and from where on each but the first is nearest.

    The last bound is that of what is beyond the greatest number. Ties go to the even code.
    """
    greatest, _ = _BEYOND[kind]
    codes = narrow_values(kind.number)
    half = codes if kind is FLOAT8E8M0 else codes[: len(codes) // 2]
    numbers = half[np.isfinite(half)].astype(np.float64)
    steps = np.append(numbers, 2 * greatest if kind is FLOAT8E8M0 else 0)
    if kind is not FLOAT8E8M0:
        steps[-1] = 2 * numbers[-1] - numbers[-2]
    middle = (steps[:-1] + steps[1:]) / 2
    if kind is FLOAT8E8M0:
        wanted = {"up": steps[:-1], "down": steps[1:], "nearest": middle}[mode]
        bounds = wanted.astype(np.float32)
        return numbers.astype(np.float32), np.nextafter(bounds, np.inf) if mode == "up" else bounds
    bounds = middle.astype(np.float32)
    bounds[::2] = np.nextafter(bounds[::2], np.float32(np.inf))
    return numbers.astype(np.float32), bounds


def rounded(x: Any, kind: ElementType, saturate: bool, mode: str = "up") -> Any:
    """float32 numbers as the nearest of a float type of eight bits or fewer."""
    numbers, bounds = _steps(kind, mode)
    greatest, beyond = _BEYOND[kind]
    table = np.append(numbers, np.float32(greatest if saturate else beyond))
    place = rl.searchsorted(as_tensor(bounds, x.device), rl.abs(x), right=True)
    near = rl.index_select(as_tensor(table, x.device), 0, place.reshape(-1)).reshape(x.shape)
    if kind is FLOAT8E8M0:
        near = near if saturate else rl.where(x < float(numbers[0]), float("nan"), near)
    else:
        near = rl.copysign(near, x)
    if kind in _WITHOUT_MINUS_ZERO:
        near = near + 0.0
    missing = -0.0 if kind is FLOAT4E2M1 else float("nan")  # it has no NaN
    return rl.where(rl.isnan(x), missing, near)


def _texts(values: Any, source: ElementType | None) -> Any:
    """Numbers as texts: floats with as few digits as tell them apart in their type."""
    if values.dtype.kind == "f" and source is FLOAT16:
        values = values.astype(np.float16)
    texts = [_text(v) for v in values.reshape(-1)]
    return np.array(texts, np.object_).reshape(values.shape)


def _text(value: Any) -> str:
    """As onnxruntime writes it: whole numbers have no fraction, truth is 1 or 0."""
    return str(value).removesuffix(".0") if isinstance(value, np.floating) else str(int(value))


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


@operator("BitCast", dynamic=True)
def bit_cast(call: Call, x: Any) -> Any:
    """The bits of elements read as those of another type of the same width."""
    kind, source = element_type(call.int("to"), call.title), call.kinds[0]
    call.result_kinds = [kind]
    if source is None or source.bits != kind.bits:
        raise call.fail(f"{source.name if source else 'this'} and {kind.name} differ in width")
    values = x if isinstance(x, np.ndarray) else x.detach().numpy()
    bits = _bits(values, source).reshape(-1)
    if kind is BOOL:
        return (bits != 0).reshape(values.shape)
    if kind.bits < 8:
        half = (1 << kind.bits - 1) if kind.name.startswith("int") else 0
        codes = bits if kind.is_float else (bits.astype(np.int16) ^ half) - half
        stored = codes.astype(np.uint8 if kind.is_float else kind.carried.numpy)  # type: ignore[union-attr]
    else:
        stored = bits.view(kind.stored)
    return carried_values(stored, kind).reshape(values.shape)


def _bits(values: Array, kind: ElementType) -> Array:
    """The codes of carried values, as unsigned integers of their width."""
    codes: Array
    if kind is FLOAT16:
        return np.asarray(values.astype(np.float16), order="C").view(np.uint16)
    if kind is BFLOAT16:
        return (np.asarray(values, order="C").view(np.uint32) >> 16).astype(np.uint16)
    if kind in _BEYOND:
        table = narrow_values(kind.number)
        same = (values[..., None] == table) & (np.signbit(values)[..., None] == np.signbit(table))
        missing = np.isnan(values)[..., None] & np.isnan(table)
        codes = np.argmax(same | missing, -1).astype(np.uint8)
        return codes
    if kind.bits < 8:
        return (values.astype(np.int16) & (1 << kind.bits) - 1).astype(np.uint8)
    codes = np.asarray(values, order="C").view(f"u{kind.bits // 8}")
    return codes
