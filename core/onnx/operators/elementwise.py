"""Arithmetic, comparison, logic and activations, element by element, with NumPy's broadcasting."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.registry import Call, operator

_PLAIN = {
    "Abs": rl.abs, "Acos": rl.acos, "Acosh": rl.acosh, "Asin": rl.asin, "Asinh": rl.asinh,
    "Atan": rl.atan, "Atanh": rl.atanh, "Ceil": rl.ceil, "Cos": rl.cos, "Cosh": rl.cosh,
    "Erf": rl.erf, "Exp": rl.exp, "Floor": rl.floor, "IsNaN": rl.isnan, "Log": rl.log,
    "Neg": rl.neg, "Not": rl.logical_not, "Reciprocal": rl.reciprocal, "Relu": rl.relu,
    "Round": rl.round, "Sigmoid": rl.sigmoid, "Sign": rl.sign, "Sin": rl.sin, "Sinh": rl.sinh,
    "Softsign": F.softsign, "Sqrt": rl.sqrt, "Tan": rl.tan, "Tanh": rl.tanh,
}  # fmt: skip
_PAIRS = {
    "Add": rl.add, "Sub": rl.sub, "Mul": rl.mul, "Equal": rl.eq, "Greater": rl.gt,
    "GreaterOrEqual": rl.ge, "Less": rl.lt, "LessOrEqual": rl.le, "And": rl.logical_and,
    "Or": rl.logical_or, "Xor": rl.logical_xor,
}  # fmt: skip


def _enter() -> None:
    for name, unary in _PLAIN.items():

        def run_unary(call: Call, x: Any, fn: Any = unary) -> Any:
            return fn(x)

        operator(name)(run_unary)
    for name, binary in _PAIRS.items():

        def run_binary(call: Call, a: Any, b: Any, fn: Any = binary) -> Any:
            call.ignore("axis", "broadcast")
            return fn(a, b)

        operator(name)(run_binary)


_enter()


@operator("MatMul", stored=(1,))
def matmul(call: Call, a: Any, b: Any) -> Any:
    """The product of matrices, batches broadcast."""
    return rl.matmul(a, b.to(a.dtype))


@operator("Div")
def div(call: Call, a: Any, b: Any) -> Any:
    """Division; of integers it is cut off towards zero."""
    if a.dtype.kind == "f":
        return a / b
    return rl.div(a, b, rounding_mode="trunc").to(a.dtype)
