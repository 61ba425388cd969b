"""Arithmetic, comparison, logic and bits, element by element, with NumPy's broadcasting."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.common import as_tensor, host_array, is_text
from rushlight.core.onnx.registry import Call, operator

_PLAIN = {
    "Abs": rl.abs, "Acos": rl.acos, "Acosh": rl.acosh, "Asin": rl.asin, "Asinh": rl.asinh,
    "Atan": rl.atan, "Atanh": rl.atanh, "BitwiseNot": rl.bitwise_not, "Ceil": rl.ceil,
    "Cos": rl.cos, "Cosh": rl.cosh, "Erf": rl.erf, "Exp": rl.exp, "Floor": rl.floor,
    "IsNaN": rl.isnan, "Log": rl.log, "Neg": rl.neg, "Not": rl.logical_not,
    "Reciprocal": rl.reciprocal, "Relu": rl.relu, "Round": rl.round, "Sigmoid": rl.sigmoid,
    "Sign": rl.sign, "Sin": rl.sin, "Sinh": rl.sinh, "Softsign": F.softsign, "Sqrt": rl.sqrt,
    "Tan": rl.tan, "Tanh": rl.tanh,
}  # fmt: skip
_PAIRS = {
    "Add": rl.add, "Sub": rl.sub, "Mul": rl.mul, "Greater": rl.gt, "GreaterOrEqual": rl.ge,
    "Less": rl.lt, "LessOrEqual": rl.le, "And": rl.logical_and, "Or": rl.logical_or,
    "Xor": rl.logical_xor, "BitwiseAnd": rl.bitwise_and, "BitwiseOr": rl.bitwise_or,
    "BitwiseXor": rl.bitwise_xor,
}  # fmt: skip
_SEVERAL = {"Max": rl.maximum, "Min": rl.minimum, "Sum": rl.add}


def _enter() -> None:
    for name, unary in _PLAIN.items():

        def run_unary(call: Call, x: Any, fn: Any = unary) -> Any:
            return fn(x)

        operator(name)(run_unary)
    for name, binary in _PAIRS.items():

        def run_binary(call: Call, a: Any, b: Any, fn: Any = binary) -> Any:
            return fn(a, _from_axis(call, a, b))

        operator(name)(run_binary)
    for name, combine in _SEVERAL.items():

        def run_several(call: Call, *inputs: Any, fn: Any = combine) -> Any:
            return reduce(fn, inputs)

        operator(name)(run_several)


_enter()


def _from_axis(call: Call, a: Any, b: Any) -> Any:
    """The second operand, with the dims of the first from `axis` on, as before opset 7."""
    axis = call.int("axis", None) if call.opset < 7 and call.flag("broadcast") else None
    call.ignore("broadcast", "axis", "consumed_inputs")
    if axis is None:
        return b
    return b.reshape(*b.shape, *[1] * (a.ndim - axis % a.ndim - b.ndim))


@operator("Equal")
def equal(call: Call, a: Any, b: Any) -> Any:
    """Whether elements are equal; texts too."""
    if is_text(a) or is_text(b):
        return np.asarray(host_array(call, a) == host_array(call, b), np.bool_)
    return rl.eq(a, b)


@operator("Mean")
def mean(call: Call, *inputs: Any) -> Any:
    """The mean of the inputs."""
    return reduce(rl.add, inputs) / len(inputs)


@operator("Div")
def div(call: Call, a: Any, b: Any) -> Any:
    """Division; of integers it is cut off towards zero."""
    b = _from_axis(call, a, b)
    if a.dtype.kind == "f":
        return a / b
    return rl.div(a, b, rounding_mode="trunc").to(a.dtype)


@operator("Mod")
def mod(call: Call, a: Any, b: Any) -> Any:
    """The remainder, with the sign of the divisor or, with `fmod`, of the dividend."""
    return (rl.fmod if call.flag("fmod") else rl.remainder)(a, b).to(a.dtype)


@operator("Pow", known=(1,))
def pow(call: Call, a: Any, b: Any) -> Any:
    """Powers, in the dtype of the base."""
    if isinstance(b, np.ndarray):
        if b.size == 1 and b.ndim <= a.ndim and (a.dtype.kind == "f" or b.dtype.kind in "iu"):
            return _power_of_number(a, b.item()).to(a.dtype)
        b = as_tensor(b, a.device)
    if a.dtype.kind == "f":
        return rl.pow(a, b.to(a.dtype) if b.dtype.kind == "f" else b).to(a.dtype)
    return rl.pow(a, b).to(a.dtype)


def _power_of_number(a: Any, n: Any) -> Any:
    if n == 1:
        return a
    if n == 2:
        return a * a
    if n == 3:
        return a * a * a
    if n == 0.5:
        return rl.sqrt(a)
    if n == -0.5:
        return rl.rsqrt(a)
    return rl.pow(a, n)


@operator("Where")
def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where the condition holds, of `y` elsewhere."""
    if is_text(x) or is_text(y):
        condition, x, y = (host_array(call, t) for t in (condition, x, y))
        return np.where(condition, x, y)
    return rl.where(condition, x, y)


@operator("BitShift")
def bit_shift(call: Call, a: Any, b: Any) -> Any:
    """Bits moved by `b` places to the LEFT or the RIGHT."""
    left = call.choice("direction", "", "LEFT", "RIGHT") == "LEFT"
    return (rl.bitwise_left_shift if left else rl.bitwise_right_shift)(a, b).to(a.dtype)


@operator("Clip", known=(1, 2))
def clip(call: Call, x: Any, least: Any = None, most: Any = None) -> Any:
    """Elements between two bounds; the upper one wins."""
    if call.opset < 11:
        least, most = call.float("min", None), call.float("max", None)
    least, most = (
        b.reshape(-1)[0].item() if isinstance(b, np.ndarray) else b for b in (least, most)
    )
    if not hasattr(least, "shape") and not hasattr(most, "shape"):
        return x if least is None and most is None else rl.clamp(x, least, most)
    if least is not None:
        x = rl.maximum(x, least.reshape(())) if hasattr(least, "shape") else rl.clamp(x, least)
    if most is not None:
        x = rl.minimum(x, most.reshape(())) if hasattr(most, "shape") else rl.clamp(x, max=most)
    return x


@operator("IsInf")
def is_inf(call: Call, x: Any) -> Any:
    """Whether elements are infinite, of the signs that are asked for."""
    below, above = call.flag("detect_negative", True), call.flag("detect_positive", True)
    if below and above:
        return rl.isinf(x)
    if above:
        return x == float("inf")
    return x == float("-inf") if below else rl.zeros_like(x, dtype="bool")
