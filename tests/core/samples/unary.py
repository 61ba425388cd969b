"""Samples of the ops of core/ops/unary.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.tools.testing import draws

from .base import (
    BITS,
    INF,
    INTS,
    NAN,
    SPECIAL,
    Array,
    Sample,
    Samples,
    each,
    either,
    movement,
    wrapped,
)

SAMPLES: dict[str, Samples] = {}


def unary(
    fn: Callable[[float], float],
    low: float = -3,
    high: float = 3,
    *,
    family: str = "elementwise",
    ints: Callable[[int], int] | None = None,
    grad: Array | None = None,
    special: Array = SPECIAL,
) -> Samples:
    """Samples of an op of one tensor: `fn` of a number, `ints` of an integer if it takes any.

    Inputs are drawn from `low` to `high`; gradients are checked at `grad`, or at draws.
    """
    at = draws(7, (5,), low + 0.1, high - 0.1) if grad is None else grad
    samples = [
        Sample("odd", (draws(1, (7, 13), low, high),)),
        Sample("empty", (np.zeros((0, 3)),)),
        Sample("0-d", (np.array(draws(2, (), low, high)),)),
        Sample("nan", (special,)),
        Sample("gradient", (at,), grad=(0,)),
    ]
    if ints is not None:
        samples += [Sample(n, (v,)) for n, v in INTS.items()]
    reference = each(fn) if ints is None else either(fn, ints)
    return Samples(reference, family, tuple(samples), whole=ints)


def predicate(fn: Callable[[Any], bool]) -> Samples:
    """Samples of an op that gives booleans, of floats and of integers."""
    truth = each(fn)
    samples = (*unary(fn).samples[:4], *(Sample(n, (v,)) for n, v in INTS.items()))
    return Samples(lambda x: truth(x).astype(np.bool_), "exact", samples)


def _sign(x: float) -> float:
    # PyTorch counts what is neither above nor below zero as zero, nan too.
    return (x > 0) - (x < 0)


def _whole(fn: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: fn(x) if math.isfinite(x) else x


def _log(fn: Callable[[float], float], zero: float = 0) -> Callable[[float], float]:
    return lambda x: -INF if x == zero else fn(x)


def _safe(fn: Callable[[float], float], minus: float) -> Callable[[float], float]:
    """`fn` whose overflow is inf above zero and `minus` below."""

    def apply(x: float) -> float:
        try:
            return fn(x)
        except OverflowError:
            return INF if x > 0 else minus

    return apply


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


KINKED = np.array([-2.3, -0.7, 0.4, 1.6])  # away from the places where a derivative jumps
SAMPLES["neg"] = unary(lambda x: -x, ints=lambda x: -x)
SAMPLES["abs"] = unary(abs, ints=abs, grad=KINKED)
SAMPLES["sign"] = unary(_sign, ints=lambda x: (x > 0) - (x < 0), grad=KINKED)
SAMPLES["square"] = unary(lambda x: x * x, ints=lambda x: x * x)
SAMPLES["floor"] = unary(_whole(math.floor), ints=int, grad=KINKED)
SAMPLES["ceil"] = unary(_whole(math.ceil), ints=int, grad=KINKED)
SAMPLES["trunc"] = unary(_whole(math.trunc), ints=int, grad=KINKED)
SAMPLES["round"] = unary(_whole(round), ints=int, grad=KINKED)
SAMPLES["exp"] = unary(math.exp)
SAMPLES["expm1"] = unary(math.expm1)
SAMPLES["log"] = unary(_log(math.log), 0.01, 30, family="cancelling")
SAMPLES["log1p"] = unary(_log(math.log1p, -1), -0.9, 30)
SAMPLES["log2"] = unary(_log(math.log2), 0.01, 30, family="cancelling")
SAMPLES["log10"] = unary(_log(math.log10), 0.01, 30, family="cancelling")
SAMPLES["sqrt"] = unary(math.sqrt, 0.01, 30)
SAMPLES["rsqrt"] = unary(
    lambda x: INF if x == 0 else 1 / math.sqrt(x),
    0.2,
    30,
    special=np.array([NAN, INF, -INF, 0.0, 1.0, -1.0]),
)
SAMPLES["reciprocal"] = unary(lambda x: math.copysign(INF, x) if x == 0 else 1 / x, 0.2, 3)
FEW = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 100.0])
SAMPLES["sin"] = unary(math.sin, family="cancelling", special=FEW)
SAMPLES["cos"] = unary(math.cos, family="cancelling", special=FEW)
SAMPLES["tan"] = unary(math.tan, -1.5, 1.5, family="cancelling", special=FEW)
SAMPLES["asin"] = unary(math.asin, -0.99, 0.99)
SAMPLES["acos"] = unary(math.acos, -0.99, 0.99, family="cancelling")
SAMPLES["atan"] = unary(math.atan)
SAMPLES["sinh"] = unary(_safe(math.sinh, -INF))
SAMPLES["cosh"] = unary(_safe(math.cosh, INF))
SAMPLES["tanh"] = unary(math.tanh)
SAMPLES["erf"] = unary(math.erf)
SAMPLES["sigmoid"] = unary(_sigmoid, -9, 9)
SAMPLES["relu"] = unary(
    lambda x: x if x > 0 or x != x else 0.0, ints=lambda x: max(x, 0), grad=KINKED
)
# -inf times a zero is nan, as in PyTorch.
SAMPLES["silu"] = unary(lambda x: NAN if x == -INF else x * _sigmoid(x), -9, 9)
SAMPLES["gelu"] = unary(lambda x: NAN if x == -INF else x * _phi(x), -6, 6, family="cancelling")
SAMPLES["gelu_tanh"] = unary(
    lambda x: NAN if x == -INF else _gelu_tanh(x),
    -6,
    6,
    family="cancelling",
    special=FEW,
)
SAMPLES["isnan"] = predicate(lambda x: x != x)
SAMPLES["isinf"] = predicate(lambda x: x in (INF, -INF))
SAMPLES["isfinite"] = predicate(math.isfinite)
SAMPLES["logical_not"] = predicate(lambda x: x == 0)
SAMPLES["bitwise_not"] = Samples(
    lambda x: ~x if x.dtype == np.bool_ else wrapped(lambda v: -v - 1, x),
    "exact",
    (
        Sample("odd", (np.arange(91, dtype=np.int32).reshape(7, 13) - 40,)),
        Sample("empty", (np.zeros((0, 3), np.int64),)),
        Sample("0-d", (np.array(5, np.int16),)),
        Sample("bool", (BITS,)),
        *(Sample(n, (v,)) for n, v in INTS.items()),
    ),
    without={"nan": "integers and booleans only"},
    whole=lambda v: -v - 1,
)


def _cast(x: Array, *, dtype: rl.DType) -> Array:
    if dtype is rl.float8_e4m3fn:  # has no infinity: stays at its largest value, as torch
        return np.clip(x.astype(np.float64), -448, 448)
    if dtype.kind == "f":
        return x.astype(np.float64)
    if dtype.kind == "b":
        return np.asarray(x != 0)
    if x.dtype.kind == "f":
        low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
        nearest = each(lambda v: 0 if v != v else int(min(max(v, low), high)))
        return np.array(
            [min(int(v), int(high)) for v in nearest(x).reshape(-1)], dtype.numpy
        ).reshape(x.shape)
    bits = 8 * dtype.itemsize
    whole = np.array([int(v) % 2**bits for v in x.reshape(-1)], object).reshape(x.shape)
    if dtype.kind == "i":
        whole = np.where(whole >= 2 ** (bits - 1), whole - 2**bits, whole)
    return whole.astype(dtype.numpy)


_NUMBERS = draws(1, (7, 13), -100, 100)
SAMPLES["cast"] = Samples(
    _cast,
    "elementwise",
    (
        Sample("odd", (_NUMBERS,), {"dtype": rl.int32}),
        Sample("empty", (np.zeros((0, 3)),), {"dtype": rl.int64}),
        Sample("0-d", (np.array(1.75),), {"dtype": rl.int8}),
        Sample("nan", (SPECIAL,), {"dtype": rl.bool}),
        *(
            Sample(
                f"nan to {d}",
                (np.append(SPECIAL, [-1.5, 300.7, 2.0**31, 2.0**63, -(2.0**63)]),),
                {"dtype": getattr(rl, d)},
            )
            for d in INTS
        ),
        *(
            Sample(f"to {d}", (SPECIAL,), {"dtype": getattr(rl, d)})
            for d in ("float32", "float64", "float16", "bfloat16", "float8_e5m2")
        ),
        Sample("to float8_e4m3fn", (_NUMBERS * 5,), {"dtype": rl.float8_e4m3fn}),
        *(
            Sample(f"{n} to {d}", (v,), {"dtype": getattr(rl, d)})
            for n, v in INTS.items()
            for d in (*INTS, "bool", "float32")
        ),
        Sample("bool", (BITS,), {"dtype": rl.float32}),
        Sample("gradient", (draws(3, (3,)),), {"dtype": rl.float64}, grad=(0,)),
    ),
)

SAMPLES["copy"] = movement(lambda x: x, ((3, 5), {}), ((0, 3), {}), ((), {}))
