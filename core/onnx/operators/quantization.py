"""Numbers quantized to few bits and back, per tensor, along a dim or by blocks."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import (
    FLOAT,
    FLOAT16,
    UINT8,
    ElementType,
)
from rushlight.core.onnx.operators.casting import converted
from rushlight.core.onnx.operators.common import asked_type, axis_of
from rushlight.core.onnx.operators.linear_algebra import (
    centered,
    float_product,
    of_columns,
    of_rows,
    takes_bytes,
)
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.ops.integers import byte_product


def limits(kind: ElementType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    low = -(1 << kind.bits - 1) if kind.name.startswith("int") else 0
    return low, low + (1 << kind.bits) - 1


def spread(call: Call, scale: Any, x: Any) -> Any:
    """Scales or zero points so that they are broadcast over `x`."""
    axis, block = call.int("axis", 1), call.int("block_size", 0)
    if scale.ndim == 0 or (scale.ndim == 1 and scale.shape[0] == 1 and not block):
        return scale.reshape(())
    d = axis_of(call, axis, x.ndim)
    if block:
        repeats, size = block, x.shape[d]
        wide = scale.unsqueeze(d + 1)
        shape = [*scale.shape[: d + 1], repeats, *scale.shape[d + 1 :]]
        joined = [*scale.shape[:d], scale.shape[d] * repeats, *scale.shape[d + 1 :]]
        return wide.expand(*shape).reshape(joined).narrow(d, 0, size)
    if scale.ndim == 1:
        return scale.reshape([-1 if i == d else 1 for i in range(x.ndim)])
    return scale


def quantized(x: Any, zero: Any, kind: ElementType, saturate: bool = True) -> Any:
    """Scaled numbers rounded to a type, the zero point added before they are held in its range."""
    if kind.is_float:
        return converted(x if zero is None else x + zero.to(x.dtype), kind, saturate)
    near = rl.round(x)
    if zero is not None:
        near = near + zero.to(x.dtype)
    low, high = limits(kind)
    return rl.clamp(near, low, high).to(kind.carried)


@operator("QuantizeLinear")
def quantize_linear(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    """x divided by the scale, rounded, plus the zero point, held in the range of the type."""
    kind = call.kinds[2] if zero is not None else None
    kind = kind or asked_type(call, "output_dtype", UINT8)
    call.ignore("output_dtype")
    precision = asked_type(call, "precision", call.kinds[1] or FLOAT)
    call.result_kinds = [kind]
    wide = x if x.dtype.kind == "f" else x.to("float32")
    divided = wide / spread(call, scale, x).to(wide.dtype)
    if precision is FLOAT16:
        divided = divided.to("float16").to("float32")
    saturate = call.flag("saturate", True)
    return quantized(divided, None if zero is None else spread(call, zero, x), kind, saturate)


@operator("DequantizeLinear", keeps_bytes=True)
def dequantize_linear(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    """x less the zero point, times the scale."""
    kind = asked_type(call, "output_dtype", call.kinds[1] or FLOAT)
    call.result_kinds = [kind]
    wide = x.to(scale.dtype)
    if zero is not None:
        wide = wide - spread(call, zero, x).to(scale.dtype)
    return (wide * spread(call, scale, x)).to(kind.carried)


def dequantized(x: Any, scale: Any, zero: Any, dim: int | None = None) -> Any:
    """x less its zero point, times its scale: one of all, or of each place along `dim`."""
    shape = [-1 if i == dim else 1 for i in range(x.ndim)] if dim is not None else []
    wide = x.to(scale.dtype)
    if zero is not None:
        wide = wide - zero.to(scale.dtype).reshape(shape)
    return wide * scale.reshape(shape)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(call: Call, x: Any) -> Any:
    """x as uint8 over its own range, which holds zero; the scale and the zero point."""
    call.result_kinds = [UINT8, FLOAT, UINT8]
    high, low = (rl.clamp(rl.amax(x), min=0), rl.clamp(rl.amin(x), max=0)) if x.numel() else (
        rl.zeros((), device=x.device), rl.zeros((), device=x.device))  # fmt: skip
    scale = (high - low) / 255
    scale = rl.where(scale == 0, rl.ones_like(scale), scale)
    zero = rl.clamp(rl.round(-low / scale), 0, 255)
    levels = rl.clamp(rl.round(x / scale) + zero, 0, 255)
    return [levels.to("uint8"), scale, zero.to("uint8")]


def _simple(a: Any, a_scale: Any, b_scale: Any, scale: Any, zero: Any) -> bool:
    """Whether the result has one scale and zero point, and float32 scales for rows and columns."""
    if scale.numel() != 1 or zero.numel() != 1 or zero.dtype.name not in ("uint8", "int8"):
        return False
    if any(s.dtype.name != "float32" or s.ndim > 1 for s in (a_scale, b_scale, scale)):
        return False
    return bool(a.ndim == 2 or a_scale.numel() == 1)


@operator("QLinearMatMul")
def qlinear_matmul(
    call: Call,
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    scale: Any,
    zero: Any,
) -> Any:
    """The product of two quantized matrices, quantized again."""
    kind = call.kinds[7] or UINT8
    call.result_kinds = [kind]
    if takes_bytes(a, b, a_zero, b_zero) and _simple(a, a_scale, b_scale, scale, zero):
        factor = of_rows(a_scale) * of_columns(b_scale) / scale.reshape(1, 1)
        a_zero, b_zero = of_rows(a_zero), of_columns(b_zero)
        zero = zero.reshape(1, 1)
        return byte_product(a, b, a_zero, b_zero, None, factor, zero, zero.dtype.name)
    left, right = centered(a, a_zero, True), centered(b, b_zero, False)
    if a.dtype.kind == "f":
        product = rl.matmul(left, right)
    else:
        product = float_product(left, right).to("float32")
    row = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = row * b_scale / scale
    if factor.numel() == 1:
        factor = factor.reshape(())
    zero = zero.reshape(()) if zero.numel() == 1 else zero
    if zero.ndim == 1:
        zero = zero.unsqueeze(-1)
    return quantized(product * factor.to(product.dtype), zero, kind)
