"""Activations of com.microsoft, those that follow a bias or split their input among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.microsoft.entering import contrib
from rushlight.core.onnx.registry import Call


@contrib("Gelu")
def gelu(call: Call, x: Any) -> Any:
    """The Gaussian error linear unit."""
    return F.gelu(x)


@contrib("BiasGelu")
def bias_gelu(call: Call, x: Any, bias: Any) -> Any:
    """Gelu of the sum with a bias."""
    return F.gelu(x + bias)


@contrib("FastGelu")
def fast_gelu(call: Call, x: Any, bias: Any = None) -> Any:
    """Gelu by its tanh formula, of the sum with a bias."""
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@contrib("QuickGelu")
def quick_gelu(call: Call, x: Any) -> Any:
    """x times sigmoid(alpha x)."""
    return x * rl.sigmoid(x * call.float("alpha", 1.702))


@contrib("BiasSplitGelu")
def bias_split_gelu(call: Call, x: Any, bias: Any) -> Any:
    """The left half times Gelu of the right half, after a bias."""
    left, right = rl.chunk(x + bias, 2, -1)
    return left * F.gelu(right)


@contrib("BiasAdd")
def bias_add(call: Call, x: Any, bias: Any, skip: Any) -> Any:
    """The sum of an input, a bias and a residual."""
    return x + bias + skip


def by_name(call: Call, name: str, params: list[float]) -> Callable[[Any], Any]:
    """The activation that a fused operator names; `params` are its numbers, as far as known."""

    def at(place: int, default: float) -> float:
        return params[place] if place < len(params) else default

    table: dict[str, Callable[[Any], Any]] = {
        "": lambda x: x,
        "Relu": rl.relu,
        "Sigmoid": rl.sigmoid,
        "Tanh": rl.tanh,
        "Gelu": F.gelu,
        "LeakyRelu": lambda x: F.leaky_relu(x, at(0, 0.01)),
        "Clip": lambda x: rl.clamp(x, at(0, -3.4028234663852886e38), at(1, 3.4028234663852886e38)),
        "HardSigmoid": lambda x: rl.clamp(x * at(0, 0.2) + at(1, 0.5), 0.0, 1.0),
        "HardSwish": lambda x: x * rl.clamp(x * at(0, 1 / 6) + at(1, 0.5), 0.0, 1.0),
        "Elu": lambda x: F.elu(x, at(0, 1.0)),
        "Softplus": F.softplus,
        "Softsign": F.softsign,
        "ThresholdedRelu": lambda x: rl.where(x > at(0, 1.0), x, rl.zeros_like(x)),
    }
    if name not in table:
        known = ", ".join(n for n in table if n)
        raise call.fail(f"the activation {name!r} is not supported; supported: {known}")
    return table[name]
