"""Samples of the ops of core/ops/binary.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import BITS, INF, INTS, NAN, PAIRS, Array, Sample, Samples, each, either

SAMPLES: dict[str, Samples] = {}


def binary(
    fn: Callable[[float, float], Any],
    ints: Callable[[int, int], int] | None = None,
    *,
    first: tuple[float, float] = (-3, 3),
    second: tuple[float, float] = (-3, 3),
    grad: tuple[int, ...] = (0, 1),
    family: str = "elementwise",
    truth: bool = False,
    bools: bool = False,
    special: Array = PAIRS,
    kinds: tuple[str, ...] = tuple(INTS),
    whole: Callable[[int, int], int] | None = None,
) -> Samples:
    """Samples of an op of two tensors: `fn` of two numbers, `ints` of two integers if it takes any.

    Inputs are drawn from the ranges `first` and `second`; gradients are checked of inputs `grad`.
    """
    a, b = draws(1, (7, 13), *first), draws(2, (7, 13), *second)
    samples = [
        Sample("odd", (a, b)),
        Sample("empty", (np.zeros((3, 0)), np.zeros((3, 0)))),
        Sample("0-d", (a[0, 0], b[0, 0])),
        Sample("nan", tuple(special)),
        Sample(
            "broadcast", (np.broadcast_to(a[:1], (5, 13)), np.broadcast_to(b[:5, 2:3], (5, 13)))
        ),
        Sample("gradient", (draws(3, (2, 3), *first), draws(4, (2, 3), *second)), grad=grad),
    ]
    if ints is not None:
        for n in kinds:
            v = INTS[n]
            grid = np.array(list(itertools.product(v, v)), v.dtype).T
            samples.append(Sample(n, (grid[0], grid[1])))
        if bools:
            samples.append(Sample("bool", (BITS, BITS[::-1].copy())))
        reference = either(fn, ints)
    else:
        reference = each(fn)
    if truth:
        return Samples(lambda x, y: each(fn)(x, y).astype(np.bool_), "exact", tuple(samples))
    return Samples(reference, family, tuple(samples), whole=whole or ints)


def _ieee_div(a: float, b: float) -> float:
    if b:
        return a / b
    return NAN if a == 0 or a != a else math.copysign(INF, a) * math.copysign(1, b)


def _floor_div(a: float, b: float) -> float:
    if b == 0:
        return _ieee_div(a, b)
    if math.isinf(a) or a != a or b != b:
        return NAN
    if math.isinf(b):
        return -1.0 if a and (a < 0) != (b < 0) else 0.0
    return math.floor(a / b) if abs(a / b) < 1e15 else a / b


def _remainder(a: float, b: float) -> float:
    if b == 0 or math.isinf(a):
        return NAN
    return a % b


def _pow(a: float, b: float) -> float:
    if a == 0 and b < 0:
        odd = b == math.trunc(b) and math.fmod(b, 2) != 0
        return math.copysign(INF, a) if odd else INF
    try:
        return math.pow(a, b)
    except OverflowError:
        return -INF if a < 0 and math.fmod(b, 2) else INF


def _int_pow(a: int, b: int) -> int:
    if b < 0:
        return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)
    return pow(a, b, 2**64)


def _nan_or(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: NAN if a != a or b != b else pick(a, b)


FAR = ((-3.0, -0.5), (0.5, 3.0))
SAMPLES["add"] = binary(lambda a, b: a + b, lambda a, b: a + b, bools=True)
SAMPLES["sub"] = binary(lambda a, b: a - b, lambda a, b: a - b)
SAMPLES["mul"] = binary(lambda a, b: a * b, lambda a, b: a * b, bools=True)
SAMPLES["div"] = binary(_ieee_div, second=(0.5, 3))
SAMPLES["floor_divide"] = binary(
    _floor_div, lambda a, b: a // b if b else 0, second=(0.5, 3), grad=()
)
SAMPLES["remainder"] = binary(
    _remainder, lambda a, b: a % b if b else 0, first=(3.2, 3.6), second=(1.1, 1.5)
)
SAMPLES["pow"] = binary(_pow, _int_pow, first=(0.3, 3), second=(-2, 3), whole=pow)
SAMPLES["maximum"] = binary(_nan_or(max), max, first=FAR[0], second=FAR[1], bools=True)
SAMPLES["minimum"] = binary(_nan_or(min), min, first=FAR[0], second=FAR[1], bools=True)
for _name, _compare in {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
}.items():
    SAMPLES[_name] = binary(_compare, _compare, grad=(), truth=True, bools=True)
for _name, _bit in {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}.items():
    _usual = binary(_bit, _bit, grad=(), bools=True)
    _ints = np.arange(91, dtype=np.int32).reshape(7, 13)
    SAMPLES[_name] = Samples(
        _usual.reference,
        "exact",
        (
            Sample("odd", (_ints - 40, _ints[::-1].copy())),
            Sample("empty", (_ints[:0], _ints[:0])),
            Sample("0-d", (np.array(12, np.uint8), np.array(10, np.uint8))),
            *_usual.samples[6:],
        ),
        without={"nan": "integers and booleans only"},
        whole=_bit,
    )

_BOUNDS = (draws(2, (7, 13)) - 0.4, draws(3, (7, 13)) + 0.4)
SAMPLES["clamp"] = Samples(
    lambda x, low, high: np.array(
        [
            NAN if math.isnan(v + a + b) else min(max(v, a), b)
            for v, a, b in zip(
                x.ravel().tolist(), low.ravel().tolist(), high.ravel().tolist(), strict=True
            )
        ],
        x.dtype,
    ).reshape(x.shape),
    "exact",
    (
        Sample("odd", (draws(1, (7, 13)), *_BOUNDS), {}, (0, 1, 2)),
        Sample("numbers", (draws(1, (600,)), np.full(600, -0.5), np.full(600, 0.5)), {}, (0,)),
        Sample("empty", (draws(1, (0, 13)), draws(2, (0, 13)), draws(3, (0, 13)))),
        Sample("0-d", (np.array(0.3), np.array(0.5), np.array(0.7))),
        Sample(
            "nan",
            (
                np.array([1.0, NAN, 1.0, 5.0]),
                np.array([NAN, 0.0, 2.0, 4.0]),
                np.array([2.0, 1.0, NAN, 2.0]),
            ),
        ),
        Sample(
            "whole", (np.array([-5, 0, 7, 2**20]), np.array([-2, 1, 3, 9]), np.array([4, 0, 6, 10]))
        ),
    ),
    whole=lambda v, low, high: min(max(v, low), high),
)

_cond = draws(9, (7, 13)) > 0
SAMPLES["where"] = Samples(
    lambda c, a, b: np.array(
        [
            y if p else z
            for p, y, z in zip(
                c.ravel().tolist(), a.ravel().tolist(), b.ravel().tolist(), strict=True
            )
        ],
        a.dtype,
    ).reshape(c.shape),
    "exact",
    (
        Sample("odd", (_cond, draws(1, (7, 13)), draws(2, (7, 13)))),
        Sample("empty", (_cond[:0], np.zeros((0, 13)), np.ones((0, 13)))),
        Sample("0-d", (np.array(True), np.array(1.5), np.array(2.5))),
        Sample("nan", (_cond[0, :7], PAIRS[0, ::7], PAIRS[1, :7])),
        Sample("int", (_cond, np.arange(91).reshape(7, 13), -np.arange(91).reshape(7, 13))),
        Sample("gradient", (_cond[0, :4], draws(3, (4,)), draws(4, (4,))), grad=(1, 2)),
    ),
)
