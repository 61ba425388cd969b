"""How far the device's float32 functions are from float64, at many points of their ranges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.tensor.op import REGISTRY
from rushlight.core.tools.testing import TOLERANCES, assert_close, draws, ulp_distance

Array = npt.NDArray[Any]
COUNT = 20000


def _spread(low: float, high: float, seed: int = 1) -> Array:
    """Points of both signs whose exponents are spread evenly from low to high."""
    u = draws(seed, (COUNT,), math.log(low), math.log(high))
    return (np.exp(u) * np.where(draws(seed + 1, (COUNT,)) < 0, -1, 1)).astype(np.float32)


def _even(low: float, high: float, seed: int = 1) -> Array:
    return draws(seed, (COUNT,), low, high).astype(np.float32)


def _near_turns(count: int) -> Array:
    """float32 next to multiples of pi/2, where sin, cos or tan is small."""
    k = np.unique(np.round(np.exp(draws(5, (count,), 0, math.log(6e8)))))
    x = (k * (math.pi / 2)).astype(np.float32)
    return np.concatenate([x, np.nextafter(x, np.float32(0)), -x])


def _each(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([fn(v) for v in x.tolist()])


def _erf(x: Array) -> Array:
    found: Array = _each(math.erf)(x)
    return found


def _gelu_tanh(x: Array) -> Array:
    found: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return found


# name -> (points, float64 reference, bound in ulp, absolute bound that also suffices)
ABSOLUTE = TOLERANCES["cancelling"]["float32"].atol
CASES: dict[str, tuple[Array, Callable[[Array], Array], float, float]] = {
    "exp": (_even(-87, 88.7), np.exp, 2, 0),
    "exp near zero": (_spread(1e-9, 1), np.exp, 2, 0),
    "expm1": (_even(-20, 88.7), np.expm1, 4, 0),
    "expm1 near zero": (_spread(1e-9, 1), np.expm1, 4, 0),
    "log": (abs(_spread(1.2e-38, 3e38)), np.log, 3, 0),
    "log near one": (_even(0.5, 2), np.log, 4, 0),
    "log1p": (_even(-0.9999, 3), np.log1p, 4, 0),
    "log1p near zero": (_spread(1e-9, 0.9), np.log1p, 4, 0),
    "log1p far": (abs(_spread(1, 3e38)), np.log1p, 3, 0),
    "log2": (abs(_spread(1.2e-38, 3e38)), np.log2, 3, 0),
    "log2 near one": (_even(0.5, 2), np.log2, 4, 0),
    "log10": (abs(_spread(1.2e-38, 3e38)), np.log10, 3, 0),
    "log10 near one": (_even(0.5, 2), np.log10, 4, 0),
    "sqrt": (abs(_spread(1.2e-38, 3e38)), np.sqrt, 2.5, 0),
    "rsqrt": (abs(_spread(1.2e-38, 3e38)), lambda x: 1 / np.sqrt(x), 4, 0),
    "reciprocal": (_spread(1e-37, 8e37), lambda x: 1 / x, 2.5, 0),
    "sin": (_even(-30, 30), np.sin, 4, 0),
    "sin far": (_spread(1e-9, 3e38), np.sin, 4, 0),
    "sin near turns": (_near_turns(3000), np.sin, 4, 1e-12),
    "cos": (_even(-30, 30), np.cos, 4, 0),
    "cos far": (_spread(1e-9, 3e38), np.cos, 4, 0),
    "cos near turns": (_near_turns(3000), np.cos, 4, 1e-12),
    "tan": (_even(-30, 30), np.tan, 4, 0),
    "tan far": (_spread(1e-9, 3e38), np.tan, 4, 0),
    "asin": (_even(-1, 1), np.arcsin, 4, 0),
    "asin near zero": (_spread(1e-9, 1), np.arcsin, 4, 0),
    "acos": (_even(-1, 1), np.arccos, 4, 0),
    "acos near one": (1 - abs(_spread(6e-8, 0.5)), np.arccos, 4, 0),
    "atan": (_spread(1e-9, 1e9), np.arctan, 4, 0),
    "atan near one": (_even(-3, 3), np.arctan, 4, 0),
    "sinh": (_even(-89, 89), np.sinh, 4, 0),
    "sinh near zero": (_spread(1e-9, 3), np.sinh, 4, 0),
    "cosh": (_even(-89, 89), np.cosh, 4, 0),
    "tanh": (_even(-10, 10), np.tanh, 4, 0),
    "tanh near zero": (_spread(1e-9, 3), np.tanh, 4, 0),
    "erf": (_even(-5, 5), _erf, 4, 0),
    "erf near zero": (_spread(1e-9, 3), _erf, 4, 0),
    "sigmoid": (_even(-80, 30), lambda x: np.exp(-np.logaddexp(0, -x)), 4, 0),
    "silu": (_even(-80, 30), lambda x: x * np.exp(-np.logaddexp(0, -x)), 4, 0),
    # The table gives the reason of the absolute bound: 1 + erf(x) cancels in the tail.
    "gelu": (
        _even(-8, 8),
        lambda x: x * _each(lambda v: math.erfc(-v / math.sqrt(2)) / 2)(x),
        4,
        ABSOLUTE,
    ),
    "gelu_tanh": (_even(-8, 8), _gelu_tanh, 4, ABSOLUTE),
}


def _apply(name: str, x: rl.Tensor) -> rl.Tensor:
    if name == "gelu_tanh":
        return rl.gelu(x, approximate="tanh")
    found: rl.Tensor = getattr(rl, name)(x) if hasattr(rl, name) else getattr(x, name)()
    return found


def _check(label: str, found: Array, want: Array, x: Array, ulp: float, absolute: float) -> None:
    far = ulp_distance(found, want, "float32")
    far = np.where(np.abs(found.astype(float) - want) <= absolute, 0, far)
    # A denormal result may be flushed to zero.
    far = np.where((np.abs(want) < 1.2e-38) & (np.abs(found) < 1.2e-38), 0, far)
    at = int(np.argmax(far))
    print(f"{label}: {far.max():.2f} ulp at {x[..., at]!r}")
    assert far.max() <= ulp, f"{label}: {far.max():.2f} ulp at {x[..., at]!r}: {found[at]!r}"


@pytest.mark.parametrize("case", CASES)
def test_functions(gpu: rl.Device, case: str) -> None:
    x, reference, ulp, absolute = CASES[case]
    found = _apply(case.split()[0], rl.tensor(x, device=gpu)).numpy()
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    _check(case, found, want, x, ulp, absolute)


PAIRS: dict[str, tuple[Array, Array, Callable[[Array, Array], Array], float]] = {
    "div": (_spread(1e-18, 1e18), _spread(1e-18, 1e18, 3), np.divide, 2.5),
    "div far": (_spread(1e-3, 1e37), _spread(1e-37, 3e38, 3), np.divide, 2.5),
    "pow": (abs(_spread(1e-4, 1e4)), _even(-9, 9, 3), np.power, 4),
    "pow near one": (_even(0.7, 1.5), _even(-200, 200, 3), np.power, 4),
    "pow whole": (_even(-9, 9), np.round(_even(-20, 20, 3)), np.power, 4),
    "pow far": (abs(_spread(1e-37, 1e38)), _even(-1, 1, 3), np.power, 4),
    "remainder": (_spread(1e-9, 1e9), _spread(1e-9, 1e9, 3), np.remainder, 1),
    "floor_divide": (_spread(1e-3, 1e3), _spread(1e-3, 1e3, 3), np.floor_divide, 1),
}


@pytest.mark.parametrize("case", PAIRS)
def test_functions_of_two(gpu: rl.Device, case: str) -> None:
    a, b, reference, ulp = PAIRS[case]
    op = getattr(rl, case.split()[0])
    found = op(rl.tensor(a, device=gpu), rl.tensor(b, device=gpu)).numpy()
    with np.errstate(all="ignore"):
        want = reference(a.astype(np.float64), b.astype(np.float64))
    _check(case, found, want, np.stack([a, b]), ulp, 0)


# --- what IEEE 754 rounds once, or not at all ----------------------------------------------------

# Both signs, ties of round, zeros, infinities and nan.
CORNERS = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 8388607.5, -8388607.5, 16777216.0, 3e38, -3e38,
     np.inf, -np.inf, np.nan], np.float32,
)  # fmt: skip
POINTS = np.concatenate([CORNERS, _spread(1e-18, 1e18), _even(-9, 9)])
ONE: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "square": np.square,
    "floor": np.floor,
    "sign": lambda x: np.sign(np.nan_to_num(x)),  # of nan it is 0, as in torch
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
}
TWO: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
# Of integers only: test_int64.py.
WHOLE = {
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
}


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_exact_functions(gpu: rl.Device, name: str) -> None:
    given = [POINTS]
    if name in TWO:
        pairs = np.meshgrid(CORNERS, CORNERS)
        given = [
            np.concatenate([pairs[i].ravel(), _spread(1e-18, 1e18, 1 + 2 * i)]) for i in range(2)
        ]
        given[1][-COUNT // 2 :] = given[0][-COUNT // 2 :]  # equal ones too
    with np.errstate(all="ignore"):
        want = (ONE[name] if name in ONE else TWO[name])(*[x.astype(np.float64) for x in given])
        if want.dtype == np.float64:
            want = want.astype(np.float32)
    found = getattr(rl, name)(*[rl.tensor(x, device=gpu) for x in given])
    np.testing.assert_array_equal(found.numpy(), want)


# --- ops whose samples say what they compute ------------------------------------------------------

NAMED = {case.split()[0] for case in (*CASES, *PAIRS)} | {*ONE, *TWO} | WHOLE


def _at_many_points(gpu: rl.Device, name: str, samples: Any) -> None:
    """The op over the range of its first sample, against the reference of its samples."""
    ranges = [(float(x.min()), float(x.max())) for x in samples.samples[0].inputs]
    points = [_even(*r, seed=i + 1)[:2000] for i, r in enumerate(ranges)]
    found = REGISTRY[name](*[rl.tensor(x, device=gpu) for x in points])
    with np.errstate(all="ignore"):
        want = samples.reference(*[x.astype(np.float64) for x in points])
    assert_close(found.cpu(), want, samples.family, label=name)


def test_an_op_without_a_case_is_near_its_reference(gpu: rl.Device, op_samples: ModuleType) -> None:
    """A new op has none: the bounds above are for those that are known to be nearer."""
    every = ELEMENTWISE.keys() & op_samples.SAMPLES.keys()  # complex ops have none
    assert every >= NAMED
    for name in (*sorted(every - NAMED), "erf", "maximum"):
        _at_many_points(gpu, name, op_samples.SAMPLES[name])
    wrong = replace(op_samples.SAMPLES["erf"], reference=lambda x: np.sin(x))
    with pytest.raises(AssertionError, match="erf"):
        _at_many_points(gpu, "erf", wrong)
