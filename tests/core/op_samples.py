"""Reference samples of every op: inputs, attributes, and what float64 NumPy or plain Python says.

The references are written from the definition of each op (loops, Python's math, Python integers)
and share no code with the kernels. `SAMPLES` maps an op's name to its `Samples`; the registry test
runs each in several dtypes and memory layouts, and checks gradients where `grad` names inputs.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import rushlight as rl
from rushlight.core.tools.testing import draws

Array = npt.NDArray[Any]
INF, NAN = float("inf"), float("nan")
LAYOUTS = ("plain", "permuted", "sliced", "expanded")
FLOATS = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Sample:
    """One call: floating inputs are float64 and take every dtype; the others keep theirs."""

    label: str
    inputs: tuple[Array | None, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    grad: tuple[int, ...] = ()  # inputs that gradients are checked for, at these very values


@dataclass(frozen=True)
class Samples:
    """The samples of one op: reference(*inputs, **attrs) gives the expected array."""

    reference: Callable[..., Any]
    family: str
    samples: tuple[Sample, ...]
    layouts: tuple[str, ...] = LAYOUTS
    floats: tuple[str, ...] = FLOATS
    # Labels that make no sense for this op, each with the reason.
    without: dict[str, str] = field(default_factory=dict)
    # The op on Python's integers, before they wrap around; None for one that gives no integers.
    whole: Callable[..., int] | None = None


def each(fn: Callable[..., Any]) -> Callable[..., Array]:
    """`fn` of Python numbers as a function of arrays of one shape."""

    def apply(*arrays: Array) -> Array:
        flat = [np.asarray(a).reshape(-1).tolist() for a in arrays]
        out = np.array([_total(fn, *v) for v in zip(*flat, strict=True)])
        return out.reshape(np.shape(arrays[0]))

    return apply


def _total(fn: Callable[..., Any], *v: Any) -> Any:
    try:
        return fn(*v)
    except OverflowError:
        return INF
    except (ValueError, ZeroDivisionError):
        return NAN


def wrapped(fn: Callable[..., int], *arrays: Array) -> Array:
    """A function of Python integers, modulo the range of the arrays' dtype."""
    dtype = arrays[0].dtype
    bits = 8 * dtype.itemsize
    values = [[int(v) for v in a.reshape(-1)] for a in arrays]
    out = [fn(*v) % 2**bits for v in zip(*values, strict=True)]
    if dtype.kind == "i":
        out = [v - 2**bits if v >= 2 ** (bits - 1) else v for v in out]
    return np.array(out, dtype).reshape(arrays[0].shape)


def either(real: Callable[..., Any], whole: Callable[..., int]) -> Callable[..., Array]:
    """The reference of an op of floats and of integers."""

    def apply(*arrays: Array) -> Array:
        if arrays[0].dtype.kind == "f":
            return each(real)(*arrays)
        if arrays[0].dtype == np.bool_:
            return each(lambda *v: bool(whole(*map(int, v))))(*arrays)
        return wrapped(whole, *arrays)

    return apply


SAMPLES: dict[str, Samples] = {}
SPECIAL = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-30])
INTS = {
    name: np.array(values, name)
    for name, values in {
        "uint8": [0, 1, 2, 127, 128, 255],
        "int8": [0, 1, -1, 5, -128, 127],
        "uint16": [0, 1, 7, 300, 2**15, 2**16 - 1],
        "int16": [0, 1, -7, 300, -(2**15), 2**15 - 1],
        "int32": [0, 1, -7, 70000, -(2**31), 2**31 - 1],
        "uint32": [0, 1, 7, 70000, 2**31, 2**32 - 1],
        "int64": [0, 1, -7, 2**40, -(2**63), 2**63 - 1],
    }.items()
}


# --- elementwise, one input ---------------------------------------------------------------------


def unary(
    name: str,
    fn: Callable[[float], float],
    low: float = -3,
    high: float = 3,
    *,
    family: str = "elementwise",
    ints: Callable[[int], int] | None = None,
    grad: Array | None = None,
    special: Array = SPECIAL,
) -> None:
    at = draws(7, (5,), low + 0.1, high - 0.1) if grad is None else grad
    samples = [
        Sample("odd", (draws(1, (7, 13), low, high),)),
        Sample("empty", (np.zeros((0, 3)),)),
        Sample("0-d", (np.array(draws(2, (), low, high)),)),
        Sample("nan", (special,)),
        Sample("gradient", (at,), grad=(0,) if grad is None or grad.size else ()),
    ]
    if ints is not None:
        samples += [Sample(n, (v,)) for n, v in INTS.items()]
    reference = each(fn) if ints is None else either(fn, ints)
    SAMPLES[name] = Samples(reference, family, tuple(samples), whole=ints)


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


NO_GRAD = np.zeros(0)
KINKED = np.array([-2.3, -0.7, 0.4, 1.6])  # away from the places where a derivative jumps
unary("neg", lambda x: -x, ints=lambda x: -x)
unary("abs", abs, ints=abs, grad=KINKED)
unary("sign", _sign, ints=lambda x: (x > 0) - (x < 0), grad=KINKED)
unary("square", lambda x: x * x, ints=lambda x: x * x)
unary("floor", _whole(math.floor), ints=int, grad=KINKED)
unary("ceil", _whole(math.ceil), ints=int, grad=KINKED)
unary("trunc", _whole(math.trunc), ints=int, grad=KINKED)
unary("round", _whole(round), ints=int, grad=KINKED)
unary("exp", math.exp)
unary("expm1", math.expm1)
unary("log", _log(math.log), 0.01, 30, family="cancelling")
unary("log1p", _log(math.log1p, -1), -0.9, 30)
unary("log2", _log(math.log2), 0.01, 30, family="cancelling")
unary("log10", _log(math.log10), 0.01, 30, family="cancelling")
unary("sqrt", math.sqrt, 0.01, 30)
unary(
    "rsqrt",
    lambda x: INF if x == 0 else 1 / math.sqrt(x),
    0.2,
    30,
    special=np.array([NAN, INF, -INF, 0.0, 1.0, -1.0]),
)
unary("reciprocal", lambda x: math.copysign(INF, x) if x == 0 else 1 / x, 0.2, 3)
FEW = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 100.0])
unary("sin", math.sin, family="cancelling", special=FEW)
unary("cos", math.cos, family="cancelling", special=FEW)
unary("tan", math.tan, -1.5, 1.5, family="cancelling", special=FEW)
unary("asin", math.asin, -0.99, 0.99)
unary("acos", math.acos, -0.99, 0.99, family="cancelling")
unary("atan", math.atan)
unary("sinh", _safe(math.sinh, -INF))
unary("cosh", _safe(math.cosh, INF))
unary("tanh", math.tanh)
unary("erf", math.erf)
unary("sigmoid", _sigmoid, -9, 9)
unary("relu", lambda x: x if x > 0 or x != x else 0.0, ints=lambda x: max(x, 0), grad=KINKED)
# -inf times a zero is nan, as in PyTorch.
unary("silu", lambda x: NAN if x == -INF else x * _sigmoid(x), -9, 9)
unary("gelu", lambda x: NAN if x == -INF else x * _phi(x), -6, 6, family="cancelling")
unary(
    "gelu_tanh",
    lambda x: NAN if x == -INF else _gelu_tanh(x),
    -6,
    6,
    family="cancelling",
    special=FEW,
)
unary("isnan", lambda x: x != x, grad=NO_GRAD)
unary("isinf", lambda x: x in (INF, -INF), grad=NO_GRAD)
unary("isfinite", math.isfinite, grad=NO_GRAD)
unary("logical_not", lambda x: x == 0, ints=lambda x: x == 0, grad=NO_GRAD)
_predicates = {
    "isnan": lambda x: x != x,
    "isinf": lambda x: x in (INF, -INF),
    "isfinite": math.isfinite,
    "logical_not": lambda x: x == 0,
}
for _name, _fn in _predicates.items():
    _truth = each(_fn)
    SAMPLES[_name] = Samples(
        (lambda t: lambda x: t(x).astype(np.bool_))(_truth),
        "exact",
        (*SAMPLES[_name].samples[:4], *(Sample(n, (v,)) for n, v in INTS.items())),
    )
BITS = np.array([True, False, True, True, False])
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


# --- elementwise, two inputs --------------------------------------------------------------------

PAIRS = np.array(list(itertools.product([NAN, INF, -INF, 0.0, -0.0, 1.5, -2.0], repeat=2))).T


def binary(
    name: str,
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
) -> None:
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
        SAMPLES[name] = Samples(
            lambda x, y: each(fn)(x, y).astype(np.bool_), "exact", tuple(samples)
        )
    else:
        SAMPLES[name] = Samples(reference, family, tuple(samples), whole=whole or ints)


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
binary("add", lambda a, b: a + b, lambda a, b: a + b, bools=True)
binary("sub", lambda a, b: a - b, lambda a, b: a - b)
binary("mul", lambda a, b: a * b, lambda a, b: a * b, bools=True)
binary("div", _ieee_div, second=(0.5, 3))
binary("floor_divide", _floor_div, lambda a, b: a // b if b else 0, second=(0.5, 3), grad=())
binary("remainder", _remainder, lambda a, b: a % b if b else 0, first=(3.2, 3.6), second=(1.1, 1.5))
binary("pow", _pow, _int_pow, first=(0.3, 3), second=(-2, 3), whole=pow)
binary("maximum", _nan_or(max), max, first=FAR[0], second=FAR[1], bools=True)
binary("minimum", _nan_or(min), min, first=FAR[0], second=FAR[1], bools=True)
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
    binary(_name, _compare, _compare, grad=(), truth=True, bools=True)
for _name, _bit in {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}.items():
    binary(_name, _bit, _bit, grad=(), bools=True)
    _ints = np.arange(91, dtype=np.int32).reshape(7, 13)
    SAMPLES[_name] = Samples(
        SAMPLES[_name].reference,
        "exact",
        (
            Sample("odd", (_ints - 40, _ints[::-1].copy())),
            Sample("empty", (_ints[:0], _ints[:0])),
            Sample("0-d", (np.array(12, np.uint8), np.array(10, np.uint8))),
            *SAMPLES[_name].samples[6:],
        ),
        without={"nan": "integers and booleans only"},
        whole=_bit,
    )


def _shift_left(a: int, b: int, bits: int = 64) -> int:
    return a << b if 0 <= b < bits else 0


def _shift_right(a: int, b: int, bits: int = 64) -> int:
    return a >> b if 0 <= b < bits else -(a < 0)


def _by_bits(fn: Callable[[int, int, int], int]) -> Callable[..., Array]:
    """The reference of a shift: the numbers wrapped to their dtype."""

    def reference(x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
        found = [fn(a, b, bits) % 2**bits for a, b in pairs]
        unsigned = np.array(found, np.dtype(f"u{x.dtype.itemsize}"))
        return unsigned.view(x.dtype).reshape(x.shape)

    return reference


def _far_shifts(v: Array) -> Array:
    """Numbers and by how much they are shifted; of int64 those whose results fit in 32 bits."""
    wide = v.dtype == np.int64
    values = [0, 1, -7, 300] if wide else v
    by = [0, 1, 5, 7, 20, 64, 70, -9] if wide else [0, 1, 5, 7, 8, 9, 31, 32, 33, 63, 64, 70, 127]
    by += [200] if v.dtype.kind == "u" else [-1, -128]
    return np.array(list(itertools.product(values, by)), v.dtype).T


for _name, _shift in {
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
}.items():
    _ints = np.arange(91, dtype=np.int32).reshape(7, 13) - 40
    _far = {n: tuple(_far_shifts(v)) for n, v in INTS.items()}
    SAMPLES[_name] = Samples(
        _by_bits(_shift),
        "exact",
        (
            Sample("odd", (_ints, np.abs(_ints) % 9)),
            Sample("empty", (_ints[:0], _ints[:0])),
            Sample("0-d", (np.array(12, np.uint8), np.array(2, np.uint8))),
            *(Sample(n, pair) for n, pair in _far.items()),
        ),
        without={"nan": "integers only"},
        whole=_shift,
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

SAMPLES["add_scaled"] = Samples(
    lambda x, y, scale: x + y * scale,
    "several",
    (
        Sample("odd", (draws(1, (7, 13)), *_BOUNDS), {}, (0, 1, 2)),
        Sample("empty", (draws(1, (0, 13)), draws(2, (0, 13)), draws(3, (0, 13)))),
        Sample("0-d", (np.array(0.3), np.array(0.5), np.array(0.7))),
        Sample(
            "nan",
            (
                np.array([1.0, NAN, 1.0, 5.0]),
                np.array([NAN, 0.0, 2.0, INF]),
                np.array([2.0, 1.0, NAN, 2.0]),
            ),
        ),
    ),
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


# --- creation, random, conversion ---------------------------------------------------------------


def _created(label: str, shape: tuple[int, ...], **attrs: Any) -> Sample:
    return Sample(label, (), {"shape": shape, **attrs})


SAMPLES["full"] = Samples(
    lambda *, shape, value, dtype: np.full(shape, value),
    "exact",
    (
        _created("odd", (7, 13), value=2.5, dtype=rl.float32),
        _created("empty", (0, 3), value=1, dtype=rl.int32),
        _created("0-d", (), value=True, dtype=rl.bool),
        _created("nan", (3,), value=NAN, dtype=rl.bfloat16),
        _created("inf", (3,), value=-INF, dtype=rl.float16),
        _created("int64", (3,), value=2**62 + 1, dtype=rl.int64),
    ),
)
SAMPLES["arange"] = Samples(
    lambda *, start, step, count, dtype: np.array([start + i * step for i in range(count)]),
    "exact",
    (
        Sample("odd", (), dict(start=3, step=-2, count=7, dtype=rl.int64)),
        Sample("empty", (), dict(start=3, step=1, count=0, dtype=rl.float32)),
        Sample("float", (), dict(start=0.5, step=0.25, count=13, dtype=rl.float32)),
        Sample("large", (), dict(start=2**53 + 1, step=1, count=3, dtype=rl.int64)),
    ),
    without={"0-d": "the result has one dim", "nan": "there is no input"},
)


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 in Python integers, as the paper's figure has it."""
    x, k = list(counter), list(key)
    for _ in range(10):
        low, high = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [high >> 32 ^ x[1] ^ k[0], high % 2**32, low >> 32 ^ x[3] ^ k[1], low % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return x


def words(seed: int, offset: int, count: int) -> list[int]:
    """The first `count` random words from block `offset` on."""
    key, out = [seed % 2**32, seed >> 32], []
    for block in range(offset, offset + -(-count // 4)):
        out += philox([block % 2**32, block >> 32, 0, 0], key)
    return out[:count]


def _draw_count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


# Narrow floats take as many bits as they hold exactly, so that nothing rounds up to one.
_UNIFORM_BITS = {"float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}


def _rand(*, shape: Any, dtype: Any, seed: int, offset: int) -> Array:
    bits = _UNIFORM_BITS.get(dtype.name, 24)
    found = [(w >> (32 - bits)) * 2.0**-bits for w in words(seed, offset, _draw_count(shape))]
    return np.array(found).reshape(shape)


def _randn(*, shape: Any, dtype: Any, seed: int, offset: int) -> Array:
    n = _draw_count(shape)
    w = [v >> 8 for v in words(seed, offset, 2 * n)]
    out = []
    for a, b in zip(w[::2], w[1::2], strict=True):
        radius = math.sqrt(-2 * math.log((a + 0.5) * 2.0**-24))
        out.append(radius * math.cos(2 * math.pi * b * 2.0**-24))
    return np.array(out).reshape(shape)


def _randint(*, low: int, high: int, shape: Any, dtype: Any, seed: int, offset: int) -> Array:
    found = [low + (w * (high - low) >> 32) for w in words(seed, offset, _draw_count(shape))]
    return np.array(found).reshape(shape)


_SEED = dict(seed=0x123456789ABCDEF, offset=2**32 - 2)
_EMPTY_DRAW = {"nan": "there is no input"}
SAMPLES["rand"] = Samples(
    _rand,
    "exact",
    (
        _created("odd", (7, 13), dtype=rl.float32, **_SEED),
        _created("empty", (0, 3), dtype=rl.float32, **_SEED),
        _created("0-d", (), dtype=rl.float64, **_SEED),
        _created("float16", (7, 13), dtype=rl.float16, **_SEED),
        _created("bfloat16", (7, 13), dtype=rl.bfloat16, **_SEED),
        _created("float8_e4m3fn", (7, 13), dtype=rl.float8_e4m3fn, **_SEED),
        _created("float8_e5m2", (7, 13), dtype=rl.float8_e5m2, **_SEED),
    ),
    without=_EMPTY_DRAW,
)
SAMPLES["randn"] = Samples(
    _randn,
    "normal",
    (
        _created("odd", (7, 13), dtype=rl.float32, **_SEED),
        _created("empty", (0, 3), dtype=rl.float32, **_SEED),
        _created("0-d", (), dtype=rl.float64, **_SEED),
        _created("bfloat16", (7, 13), dtype=rl.bfloat16, **_SEED),
    ),
    without=_EMPTY_DRAW,
)
SAMPLES["randint"] = Samples(
    _randint,
    "exact",
    (
        _created("odd", (7, 13), low=-5, high=8, dtype=rl.int64, **_SEED),
        _created("empty", (0, 3), low=0, high=2, dtype=rl.int64, **_SEED),
        _created("0-d", (), low=0, high=2**32, dtype=rl.int64, **_SEED),
        _created("uint8", (20,), low=0, high=256, dtype=rl.uint8, **_SEED),
    ),
    without=_EMPTY_DRAW,
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


# --- movement -----------------------------------------------------------------------------------


def movement(
    name: str,
    reference: Callable[..., Array],
    *calls: tuple[tuple[int, ...], dict[str, Any]],
    layouts: tuple[str, ...] = LAYOUTS,
    without: dict[str, str] | None = None,
    family: str = "exact",
    zero: dict[str, Any] | None = None,
) -> None:
    """Samples of an op of one tensor: the first call is the odd one, and the one differentiated."""
    samples = [
        Sample("empty" if 0 in shape else "0-d" if not shape else "odd", (draws(i + 1, shape),), a)
        for i, (shape, a) in enumerate(calls)
    ]
    shape, attrs = calls[0]
    special = np.resize(SPECIAL, shape)
    samples.append(Sample("nan", (special,), attrs))
    samples.append(Sample("int", (np.arange(special.size).reshape(shape),), attrs))
    samples.append(Sample("gradient", (draws(9, shape),), attrs, grad=(0,)))
    SAMPLES[name] = Samples(reference, family, tuple(samples), layouts, without=without or {})


def _loop_slice_backward(g: Array, *, shape: Any, ranges: Any) -> Array:
    out = np.zeros(shape, g.dtype)
    places = itertools.product(*(range(*r) for r in ranges))
    for at, v in zip(places, g.reshape(-1), strict=True):
        out[at] = v
    return out


def _loop_unfold(x: Array, *, dim: int, size: int, step: int, dilation: int) -> Array:
    count = (x.shape[dim] - (size - 1) * dilation - 1) // step + 1
    windows = [
        np.stack([np.take(x, i * step + k * dilation, dim) for k in range(size)], -1)
        for i in range(count)
    ]
    return np.stack(windows, dim)


def _loop_unfold_backward(
    g: Array, *, length: int, dim: int, size: int, step: int, dilation: int
) -> Array:
    out = np.zeros((length, *np.moveaxis(g[..., 0], dim, 0).shape[1:]))
    for i in range(g.shape[dim]):
        for k in range(size):
            out[i * step + k * dilation] += np.take(g[..., k], i, dim)
    return np.moveaxis(out, 0, dim)


def _loop_pad(x: Array, *, pads: Any, value: float) -> Array:
    out = np.full([n + a + b for n, (a, b) in zip(x.shape, pads, strict=True)], value, x.dtype)
    for at in np.ndindex(x.shape):
        out[tuple(i + a for i, (a, _) in zip(at, pads, strict=True))] = x[at]
    return out


movement("copy", lambda x: x, ((3, 5), {}), ((0, 3), {}), ((), {}))
movement(
    "permute",
    lambda x, dims: np.array(
        [
            x[tuple(at[dims.index(d)] for d in range(len(dims)))]
            for at in np.ndindex(*(x.shape[d] for d in dims))
        ],
        x.dtype,
    ).reshape([x.shape[d] for d in dims]),
    ((2, 3, 5), {"dims": (2, 0, 1)}),
    ((0, 3), {"dims": (1, 0)}),
    ((), {"dims": ()}),
)
movement(
    "expand",
    lambda x, shape: x + np.zeros(shape, x.dtype),
    ((3, 1), {"shape": (2, 3, 5)}),
    ((1, 0), {"shape": (4, 0)}),
    ((), {"shape": (3,)}),
)
movement(
    "view",
    lambda x, shape: np.array(x.reshape(-1).tolist(), x.dtype).reshape(shape),
    ((3, 5, 2), {"shape": (15, 2, 1)}),
    ((0, 3), {"shape": (6, 0)}),
    ((), {"shape": (1, 1)}),
    layouts=("plain",),
)
movement(
    "slice",
    lambda x, ranges: x[np.ix_(*(list(range(*r)) for r in ranges))],
    ((5, 7), {"ranges": ((1, 5, 2), (0, 7, 3))}),
    ((0, 3), {"ranges": ((0, 0, 1), (1, 3, 1))}),
    ((5, 3), {"ranges": ((2, 2, 1), (0, 3, 1))}),
    without={"0-d": "there is no dim to slice"},
)
movement(
    "index",
    lambda x, key: x[tuple(slice(*k) if isinstance(k, tuple) else k for k in key)],
    ((5, 7), {"key": (3, (0, 7, 3))}),
    ((4, 5, 3), {"key": ((1, 4, 2), 0, (0, 3, 1))}),
    ((0, 3), {"key": ((0, 0, 1), 2)}),
    ((2, 3), {"key": (1, 2)}),
    ((5, 3), {"key": ((2, 2, 1), 1)}),
    without={"0-d": "there is no dim to index"},
)
movement(
    "slice_backward",
    _loop_slice_backward,
    ((2, 3), {"shape": (5, 7), "ranges": ((1, 5, 2), (0, 7, 3))}),
    ((0, 2), {"shape": (0, 3), "ranges": ((0, 0, 1), (1, 3, 1))}),
    without={"0-d": "there is no dim to slice"},
)
_UNFOLD = {"dim": 0, "size": 3, "step": 2, "dilation": 2}
movement(
    "unfold",
    _loop_unfold,
    ((9, 2), _UNFOLD),
    ((9, 0), _UNFOLD),
    ((7,), {"dim": 0, "size": 2, "step": 1, "dilation": 1}),
    without={"0-d": "there is no dim to unfold"},
)
movement(
    "as_strided",
    lambda x, shape, strides, offset: np.array(
        [
            x.reshape(-1)[offset + sum(i * s for i, s in zip(at, strides, strict=True))]
            for at in np.ndindex(*shape)
        ],
        x.dtype,
    ).reshape(shape),
    ((3, 5), {"shape": (2, 4), "strides": (5, 2), "offset": 1}),
    ((0, 3), {"shape": (0, 2), "strides": (1, 1), "offset": 0}),
    ((), {"shape": (2,), "strides": (0,), "offset": 0}),
    layouts=("plain",),
)
movement(
    "unfold_backward",
    _loop_unfold_backward,
    ((3, 2, 3), {"length": 9, **_UNFOLD}),
    ((3, 0, 3), {"length": 9, **_UNFOLD}),
    ((6, 2), {"length": 7, "dim": 0, "size": 2, "step": 1, "dilation": 1}),
    family="sum",
    without={"0-d": "there is no dim to unfold"},
)
movement(
    "flip",
    lambda x, dims: np.array(
        [
            x[
                tuple(
                    n - 1 - i if d in dims else i
                    for d, (i, n) in enumerate(zip(at, x.shape, strict=True))
                )
            ]
            for at in np.ndindex(x.shape)
        ],
        x.dtype,
    ).reshape(x.shape),
    ((3, 5, 2), {"dims": (0, 2)}),
    ((0, 3), {"dims": (0,)}),
    ((), {"dims": ()}),
)
movement(
    "pad",
    _loop_pad,
    ((3, 5), {"pads": ((1, 2), (0, 3)), "value": 2}),
    ((0, 3), {"pads": ((1, 0), (0, 0)), "value": 0}),
    ((), {"pads": (), "value": 1}),
)
SAMPLES["cat"] = Samples(
    lambda *xs, dim: np.moveaxis(
        np.array([r for x in xs for r in np.moveaxis(x, dim, 0)]).reshape(
            sum(x.shape[dim] for x in xs), *np.moveaxis(xs[0], dim, 0).shape[1:]
        ),
        0,
        dim,
    ),
    "exact",
    (
        Sample("odd", (draws(1, (3, 5)), draws(2, (3, 1)), draws(3, (3, 4))), {"dim": 1}),
        Sample("empty", (np.zeros((2, 0)), draws(2, (2, 3))), {"dim": 1}),
        Sample("all empty", (np.zeros((2, 0)), np.zeros((1, 0))), {"dim": 0}),
        Sample("nan", (SPECIAL, SPECIAL), {"dim": 0}),
        Sample("int", (np.arange(6).reshape(2, 3), np.arange(3).reshape(1, 3)), {"dim": 0}),
        Sample("gradient", (draws(1, (2, 2)), draws(2, (2, 1))), {"dim": 1}, grad=(0, 1)),
    ),
    layouts=("plain", "permuted", "sliced"),
    without={"0-d": "there is no dim to join along"},
)


# --- reductions ---------------------------------------------------------------------------------


def _over(x: Array, dim: tuple[int, ...], keepdim: bool, fn: Callable[[list[Any]], Any]) -> Array:
    """`fn` of the list of elements along the dims, row-major, for every place of the others."""
    kept = [d for d in range(x.ndim) if d not in dim]
    out = {}
    for at in np.ndindex(*(x.shape[d] for d in kept)):
        key: list[Any] = [slice(None)] * x.ndim
        for d, i in zip(kept, at, strict=True):
            key[d] = i
        out[at] = fn(x[tuple(key)].reshape(-1).tolist())
    shape = [x.shape[d] for d in kept]
    flat = np.array([out[at] for at in np.ndindex(*shape)]).reshape(shape)
    return np.expand_dims(flat, dim) if keepdim else flat


def reduction(
    name: str,
    fn: Callable[[list[Any]], Any],
    family: str,
    *,
    grad: bool = True,
    empty: bool = True,
    whole: bool = True,
) -> None:
    def reference(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Array:
        out = _over(x, dim, keepdim, fn)
        if name in ("any", "all"):
            return out.astype(np.bool_)
        return out if x.dtype.kind == "f" else out.astype(x.dtype)

    x = draws(1, (5, 7, 3))
    samples = [
        Sample("odd", (x,), {"dim": (1,), "keepdim": False}),
        Sample("several", (x,), {"dim": (0, 2), "keepdim": True}),
        Sample("every", (x,), {"dim": (0, 1, 2), "keepdim": False}),
        Sample("none", (x,), {"dim": (), "keepdim": False}),
        Sample("empty", (np.zeros((0, 3)),), {"dim": (1,), "keepdim": False}),
        Sample("0-d", (np.array(1.5),), {"dim": (), "keepdim": False}),
        Sample("nan", (PAIRS.T.copy(),), {"dim": (1,), "keepdim": False}),
        Sample("int", (np.arange(12).reshape(3, 4),), {"dim": (0,), "keepdim": False}),
    ]
    if empty:
        samples.append(Sample("of none", (np.zeros((3, 0)),), {"dim": (1,), "keepdim": False}))
    if grad:
        samples.append(
            Sample("gradient", (draws(5, (2, 3)),), {"dim": (1,), "keepdim": False}, grad=(0,))
        )
        samples.append(
            Sample("gradient kept", (draws(6, (2, 3)),), {"dim": (0,), "keepdim": True}, grad=(0,))
        )
    SAMPLES[name] = Samples(reference, family, tuple(samples))


def _max(values: list[float]) -> float:
    return NAN if any(v != v for v in values) else max(values)


def _min(values: list[float]) -> float:
    return NAN if any(v != v for v in values) else min(values)


def _sum(values: list[float]) -> float:
    finite = all(map(math.isfinite, values))
    return math.fsum(values) if finite else sum(values)


reduction("sum", _sum, "sum")
reduction("amax", _max, "exact", empty=False)
reduction("amin", _min, "exact", empty=False)
reduction("any", lambda v: any(a != 0 for a in v), "exact", grad=False)
reduction("all", lambda v: all(a != 0 for a in v), "exact", grad=False)


def _first(values: list[float], best: Callable[[list[float]], float]) -> int:
    for i, v in enumerate(values):
        if v != v:
            return i
    return values.index(best(values))


def arg_reduction(name: str, best: Callable[[Any], float]) -> None:
    ties = np.array([[2.0, 5.0, 5.0], [1.0, 1.0, -0.0], [0.0, -0.0, 0.0]])
    SAMPLES[name] = Samples(
        lambda x, *, dim, keepdim: _over(x, (dim,), keepdim, lambda v: _first(v, best)),
        "exact",
        (
            Sample("odd", (draws(1, (5, 7, 3)),), {"dim": 1, "keepdim": False}),
            Sample("kept", (draws(2, (5, 7)),), {"dim": 0, "keepdim": True}),
            Sample("empty", (np.zeros((0, 3)),), {"dim": 1, "keepdim": False}),
            Sample("nan", (PAIRS.T.copy(),), {"dim": 1, "keepdim": False}),
            Sample("ties", (ties,), {"dim": 1, "keepdim": False}),
            Sample("int", (np.arange(12).reshape(3, 4) % 5,), {"dim": 0, "keepdim": False}),
            Sample("bool", (BITS,), {"dim": 0, "keepdim": False}),
        ),
        without={"0-d": "there is no dim to go along; ops.argmax makes it one"},
    )


arg_reduction("argmax", max)
arg_reduction("argmin", min)


def _loop_cumsum(x: Array, *, dim: int) -> Array:
    rows = np.moveaxis(x, dim, -1)
    out = np.array([list(itertools.accumulate(r.tolist())) for r in rows.reshape(-1, x.shape[dim])])
    return np.moveaxis(out.reshape(rows.shape), -1, dim)


SAMPLES["cumsum"] = Samples(
    _loop_cumsum,
    "sum",
    (
        Sample("odd", (draws(1, (5, 7, 3)),), {"dim": 1}),
        Sample("empty", (np.zeros((3, 0)),), {"dim": 0}),
        Sample("nan", (np.array([1, 2, INF, 3, NAN, 4.0]),), {"dim": 0}),
        Sample("int", (np.arange(12).reshape(3, 4),), {"dim": 0}),
        Sample("gradient", (draws(2, (2, 3)),), {"dim": 1}, grad=(0,)),
    ),
    without={"0-d": "there is no dim to go along"},
)


# --- sorting ------------------------------------------------------------------------------------


def _order(values: list[float], descending: bool) -> list[int]:
    """Indices in order, nan above everything, equal ones by index."""
    keys = [(1, 0.0) if v != v else (0, v) for v in values]
    if descending:
        return sorted(range(len(keys)), key=lambda i: (-keys[i][0], -keys[i][1]))
    return sorted(range(len(keys)), key=lambda i: keys[i])


def _sorted_rows(x: Array, dim: int, descending: bool, k: int | None = None) -> Array:
    rows = np.moveaxis(x, dim, -1)
    n = rows.shape[-1] if k is None else k
    out = [_order(r.tolist(), descending)[:n] for r in rows.reshape(-1, rows.shape[-1])]
    return np.moveaxis(np.array(out, np.int64).reshape(*rows.shape[:-1], n), -1, dim)


_TIED = np.array([[1.0, NAN, 2.0, 1.0, -INF, NAN, 2.0], [0.0, -0.0, 3.0, INF, 3.0, INF, 0.0]])
_SORTS = [
    ("odd", draws(1, (5, 7, 3)), 1),
    ("empty", np.zeros((0, 3)), 1),
    ("nan", _TIED, 1),
    ("int", np.arange(12).reshape(3, 4) % 5, 0),
    ("first dim", draws(2, (5, 3)), 0),
    ("uint8", INTS["uint8"], 0),
    ("bool", BITS, 0),
]
_NO_DIM = {"0-d": "there is no dim to sort along"}
SAMPLES["argsort"] = Samples(
    lambda x, *, dim, descending: _sorted_rows(x, dim, descending),
    "exact",
    tuple(
        Sample(n if not d else f"{n} down", (x,), {"dim": k, "descending": d})
        for n, x, k in _SORTS
        for d in (False, True)
    ),
    without=_NO_DIM,
)
SAMPLES["topk"] = Samples(
    lambda x, *, k, dim, largest: _sorted_rows(x, dim, largest, k),
    "exact",
    tuple(
        Sample(n if big else f"{n} smallest", (x,), {"k": k, "dim": d, "largest": big})
        for n, x, d in _SORTS
        for big, k in ((True, 2), (False, 3))
    ),
    without=_NO_DIM,
)


# --- indexing -----------------------------------------------------------------------------------


def _loop_gather(x: Array, index: Array, *, dim: int) -> Array:
    out = np.empty(index.shape, x.dtype)
    for at in np.ndindex(index.shape):
        out[at] = x[(*at[:dim], index[at], *at[dim + 1 :])]
    return out


def _loop_scatter(x: Array, index: Array, src: Array, *, dim: int) -> Array:
    out = x.copy()
    for at in np.ndindex(index.shape):
        out[(*at[:dim], index[at], *at[dim + 1 :])] = src[at]
    return out


def _loop_scatter_add(x: Array, index: Array, src: Array, *, dim: int) -> Array:
    out = x.copy()
    for at in np.ndindex(index.shape):
        out[(*at[:dim], index[at], *at[dim + 1 :])] += src[at]
    return out


_GATHER = np.array([[0, 2, 1], [4, 4, 0]])
_X, _SRC = draws(1, (5, 3)), draws(2, (2, 3))
_UNIQUE = np.array([[0, 2, 1], [4, 3, 0]])
_NAN5 = np.resize(SPECIAL, (5, 3))
_PICKS = {"0-d": "indices need a dim; the functions make it one"}
SAMPLES["gather"] = Samples(
    _loop_gather,
    "exact",
    (
        Sample("odd", (_X, _GATHER), {"dim": 0}),
        Sample("last dim", (_X, np.array([[2, 0], [1, 1]], np.int32)), {"dim": 1}),
        Sample("empty", (_X, np.zeros((0, 3), np.int64)), {"dim": 0}),
        Sample("nan", (_NAN5, _GATHER), {"dim": 0}),
        Sample("int", (np.arange(15).reshape(5, 3), _GATHER), {"dim": 0}),
        Sample("gradient", (_X, _GATHER), {"dim": 0}, grad=(0,)),
    ),
    without=_PICKS,
)
SAMPLES["scatter"] = Samples(
    _loop_scatter,
    "exact",
    (
        Sample("odd", (_X, _UNIQUE, _SRC), {"dim": 0}),
        Sample("last dim", (_X, np.array([[2, 0], [1, 0]]), _SRC[:, :2]), {"dim": 1}),
        Sample("empty", (_X, np.zeros((0, 3), np.int64), _SRC[:0]), {"dim": 0}),
        Sample("nan", (_NAN5, _UNIQUE, _SRC), {"dim": 0}),
        Sample(
            "int", (np.arange(15).reshape(5, 3), _UNIQUE, np.arange(6).reshape(2, 3)), {"dim": 0}
        ),
        Sample("gradient", (_X, _UNIQUE, _SRC), {"dim": 0}, grad=(0, 2)),
    ),
    without=_PICKS,
)
SAMPLES["scatter_add"] = Samples(
    _loop_scatter_add,
    "sum",
    (
        Sample("odd", (_X, np.zeros((2, 3), np.int64), _SRC), {"dim": 0}),
        Sample("last dim", (_X, np.array([[2, 2], [1, 0]]), _SRC[:, :2]), {"dim": 1}),
        Sample("empty", (_X, np.zeros((0, 3), np.int64), _SRC[:0]), {"dim": 0}),
        Sample("nan", (_NAN5, _GATHER, _SRC), {"dim": 0}),
        Sample(
            "int", (np.arange(15).reshape(5, 3), _GATHER, np.arange(6).reshape(2, 3)), {"dim": 0}
        ),
        Sample("gradient", (_X, _GATHER, _SRC), {"dim": 0}, grad=(0, 2)),
    ),
    without=_PICKS,
)
_ROWS = np.array([3, 0, 3, 4])


def _loop_index_add(x: Array, index: Array, source: Array, *, dim: int) -> Array:
    out = np.moveaxis(x.copy(), dim, 0)
    for i, part in zip(index.tolist(), np.moveaxis(source, dim, 0), strict=True):
        out[i] += part
    return np.moveaxis(out, 0, dim)


def _loop_select(x: Array, index: Array, *, dim: int) -> Array:
    moved = np.moveaxis(x, dim, 0)
    out = np.array([moved[i] for i in index.tolist()], x.dtype)
    return np.moveaxis(out.reshape(len(index), *moved.shape[1:]), 0, dim)


SAMPLES["index_select"] = Samples(
    _loop_select,
    "exact",
    (
        Sample("odd", (_X, _ROWS), {"dim": 0}),
        Sample("last dim", (_X, np.array([1, 1], np.uint8)), {"dim": 1}),
        Sample("empty", (_X, np.zeros(0, np.int64)), {"dim": 0}),
        Sample("nan", (_NAN5, _ROWS), {"dim": 0}),
        Sample("int", (np.arange(15).reshape(5, 3), _ROWS), {"dim": 0}),
        Sample("gradient", (_X, _ROWS), {"dim": 0}, grad=(0,)),
    ),
    without=_PICKS,
)
SAMPLES["index_add"] = Samples(
    _loop_index_add,
    "sum",
    (
        Sample("odd", (_X, _ROWS, draws(3, (4, 3))), {"dim": 0}),
        Sample("last dim", (_X, np.array([1, 1]), draws(3, (5, 2))), {"dim": 1}),
        Sample("empty", (_X, np.zeros(0, np.int64), np.zeros((0, 3))), {"dim": 0}),
        Sample("nan", (_NAN5, _ROWS, draws(3, (4, 3))), {"dim": 0}),
        Sample(
            "int", (np.arange(15).reshape(5, 3), _ROWS, np.arange(12).reshape(4, 3)), {"dim": 0}
        ),
        Sample("gradient", (_X, _ROWS, draws(3, (4, 3))), {"dim": 0}, grad=(0, 2)),
    ),
    without=_PICKS,
)
SAMPLES["embedding"] = Samples(
    lambda w, i: np.array([w[k] for k in i.reshape(-1)], w.dtype).reshape(*i.shape, w.shape[1]),
    "exact",
    (
        Sample("odd", (_X, np.array([[0, 4, 1], [1, 1, 3]]))),
        Sample("empty", (_X, np.zeros((2, 0), np.int64))),
        Sample("0-d", (_X, np.array(2))),
        Sample("nan", (_NAN5, _ROWS)),
        Sample("gradient", (_X, _ROWS), grad=(0,)),
    ),
)
SAMPLES["ravel_index"] = Samples(
    lambda *index, sizes: np.array(
        [
            np.dot(
                [i % n for i, n in zip(v, sizes, strict=True)],
                [math.prod(sizes[d + 1 :]) for d in range(len(sizes))],
            )
            for v in zip(*(i.reshape(-1).tolist() for i in index), strict=True)
        ],
        np.int64,
    ).reshape(index[0].shape),
    "exact",
    (
        Sample(
            "odd", (np.array([[0, 2], [-1, 1]]), np.array([[4, -5], [0, 3]])), {"sizes": (3, 5)}
        ),
        Sample("empty", (np.zeros((0, 2), np.int64),), {"sizes": (3,)}),
        Sample("0-d", (np.array(-2),), {"sizes": (3,)}),
    ),
    without={"nan": "integers only"},
)


def _loop_assign(x: Array, value: Array, *, ranges: Any, shape: Any) -> Array:
    out = x.copy()
    places = itertools.product(*(range(*r) for r in ranges))
    for at, v in zip(places, value.reshape(-1), strict=True):
        out[at] = v
    return out


_PART = {"ranges": ((1, 5, 2), (0, 3, 2)), "shape": (2, 1, 2)}
SAMPLES["assign"] = Samples(
    _loop_assign,
    "exact",
    (
        Sample("odd", (_X, draws(3, (2, 1, 2))), _PART),
        Sample(
            "empty", (_X, np.zeros((0, 3))), {"ranges": ((2, 2, 1), (0, 3, 1)), "shape": (0, 3)}
        ),
        Sample("0-d", (np.array(1.0), np.array(2.0)), {"ranges": (), "shape": ()}),
        Sample("nan", (_NAN5, draws(3, (2, 1, 2))), _PART),
        Sample("int", (np.arange(15).reshape(5, 3), np.arange(4).reshape(2, 1, 2)), _PART),
        Sample("gradient", (_X, draws(3, (2, 1, 2))), _PART, grad=(0, 1)),
    ),
)


def _loop_put(x: Array, index: Array, value: Array) -> Array:
    flat = x.reshape(-1).copy()
    for i, v in zip(index.reshape(-1).tolist(), value.reshape(-1), strict=True):
        flat[i] = v
    return flat.reshape(x.shape)


_FLAT = np.array([[14, 0, 3], [7, 5, 1]])
SAMPLES["put"] = Samples(
    _loop_put,
    "exact",
    (
        Sample("odd", (_X, _FLAT, _SRC)),
        Sample("empty", (_X, np.zeros((0, 2), np.int64), np.zeros((0, 2)))),
        Sample("of empty", (np.zeros((0, 3)), np.zeros(0, np.int64), np.zeros(0))),
        Sample("0-d", (np.array(1.0), np.array(0), np.array(2.0))),
        Sample("nan", (_NAN5, _FLAT, _SRC)),
        Sample("int", (np.arange(15).reshape(5, 3), _FLAT, np.arange(6).reshape(2, 3))),
        Sample("gradient", (_X, _FLAT, _SRC), grad=(0, 2)),
    ),
)


# --- products, normalisation, attention ---------------------------------------------------------


def _loop_matmul(a: Array, b: Array) -> Array:
    out = np.zeros((*a.shape[:-1], b.shape[-1]))
    for at in np.ndindex(out.shape):
        row, column = a[(*at[:-2], at[-2])], b[(*at[:-2], slice(None), at[-1])]
        out[at] = _sum([p * q for p, q in zip(row.tolist(), column.tolist(), strict=True)])
    return out if a.dtype.kind == "f" else out.astype(a.dtype)


_NO_ROW = {"0-d": "a product needs rows"}
_NANS = np.array([[1.0, NAN, 2.0], [INF, 1.0, 0.5]])
SAMPLES["matmul"] = Samples(
    _loop_matmul,
    "product",
    (
        Sample("odd", (draws(1, (5, 7)), draws(2, (7, 3)))),
        Sample("batch", (draws(1, (2, 3, 5)), draws(2, (2, 5, 7)))),
        Sample("empty", (np.zeros((0, 7)), draws(2, (7, 3)))),
        Sample("of none", (np.zeros((2, 0)), np.zeros((0, 3)))),
        Sample("nan", (_NANS, draws(2, (3, 2)))),
        Sample("int", (np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4))),
        Sample("gradient", (draws(1, (2, 3)), draws(2, (3, 2))), grad=(0, 1)),
    ),
    without=_NO_ROW,
)


def _loop_linear(x: Array, w: Array, b: Array | None) -> Array:
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = _loop_matmul(rows, w.T).reshape(*x.shape[:-1], w.shape[0])
    return out if b is None else out + b


SAMPLES["linear"] = Samples(
    _loop_linear,
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 7)), draws(2, (4, 7)), draws(3, (4,)))),
        Sample("one row", (draws(1, (7,)), draws(2, (4, 7)), None)),
        Sample("empty", (np.zeros((0, 7)), draws(2, (4, 7)), draws(3, (4,)))),
        Sample("nan", (_NANS, draws(2, (2, 3)), None)),
        Sample("gradient", (draws(1, (2, 3)), draws(2, (2, 3)), draws(3, (2,))), grad=(0, 1, 2)),
        Sample(
            "gradient of a row", (draws(1, (3,)), draws(2, (2, 3)), draws(3, (2,))), grad=(0, 1, 2)
        ),
    ),
    without=_NO_ROW,
)
SAMPLES["linear_t"] = Samples(
    lambda g, w: _loop_linear(g, w.T, None),
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 4)), draws(2, (4, 7)))),
        Sample("empty", (np.zeros((0, 4)), draws(2, (4, 7)))),
        Sample("nan", (_NANS, draws(2, (3, 2)))),
        Sample("gradient", (draws(1, (2, 3)), draws(2, (3, 2))), grad=(0, 1)),
    ),
    without=_NO_ROW,
)


def _loop_experts(x: Array, w: Array, index: Array, b: Array | None) -> Array:
    out = np.zeros((*x.shape[:-1], w.shape[1]))
    for at in np.ndindex(*index.shape):
        e = int(index[at])
        out[at] = _loop_linear(x[at][None], w[e], None if b is None else b[e])[0]
    return out


_NAMED = np.array([[2, 0, 1, 0, 2], [1, 1, 1, 2, 0], [0, 2, 2, 1, 1]])
SAMPLES["linear_experts"] = Samples(
    _loop_experts,
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 7)), draws(2, (3, 4, 7)), _NAMED, draws(3, (3, 4)))),
        Sample("one row", (draws(1, (7,)), draws(2, (3, 4, 7)), np.array(2), None)),
        Sample(
            "empty",
            (np.zeros((0, 7)), draws(2, (3, 4, 7)), np.zeros(0, np.int64), draws(3, (3, 4))),
        ),
        Sample("nan", (_NANS, draws(2, (3, 2, 3)), np.arange(len(_NANS)) % 3, None)),
        Sample(
            "gradient",
            (draws(1, (2, 2, 3)), draws(2, (3, 2, 3)), _NAMED[:2, :2], draws(3, (3, 2))),
            grad=(0, 1, 3),
        ),
    ),
    without=_NO_ROW,
)
SAMPLES["linear_experts_t"] = Samples(
    lambda g, w, i: _loop_experts(g, w.transpose(0, 2, 1), i, None),
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 4)), draws(2, (3, 4, 7)), _NAMED)),
        Sample("empty", (np.zeros((0, 4)), draws(2, (3, 4, 7)), np.zeros(0, np.int64))),
        Sample("nan", (_NANS, draws(2, (3, 3, 2)), np.arange(len(_NANS)) % 3)),
        Sample("gradient", (draws(1, (2, 2, 3)), draws(2, (3, 3, 2)), _NAMED[:2, :2]), grad=(0, 1)),
    ),
    without=_NO_ROW,
)


def _row_softmax(values: list[float]) -> list[float]:
    top = _max(values) if values else 0
    if not math.isfinite(top):
        return [NAN for _ in values]
    e = [math.exp(v - top) for v in values]
    return [v / math.fsum(e) for v in e]


def _rows_of(fn: Callable[[list[float]], list[float]]) -> Callable[..., Array]:
    def apply(x: Array, *, dim: int) -> Array:
        rows = np.moveaxis(x, dim, -1)
        flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
        out = np.array([fn(r.tolist()) for r in flat], np.float64)
        return np.moveaxis(out.reshape(rows.shape), -1, dim)

    return apply


def _row_log_softmax(values: list[float]) -> list[float]:
    if not values or not math.isfinite(top := _max(values)):
        return [NAN for _ in values]
    total = math.log(math.fsum(math.exp(v - top) for v in values))
    return [v - top - total for v in values]


_ROW_NANS = np.array([[1.0, NAN, 2.0], [INF, 1.0, 0.5], [-INF, 1.0, 2.0], [-INF] * 3, [1e30, 0, 1]])
for _name, _row in {"softmax": _row_softmax, "log_softmax": _row_log_softmax}.items():
    SAMPLES[_name] = Samples(
        _rows_of(_row),
        "product",
        (
            Sample("odd", (draws(1, (5, 7, 3), -9, 9),), {"dim": 1}),
            Sample("empty", (np.zeros((0, 3)),), {"dim": 1}),
            Sample("of none", (np.zeros((3, 0)),), {"dim": 1}),
            Sample("nan", (_ROW_NANS if _name == "softmax" else _ROW_NANS[:4],), {"dim": 1}),
            Sample("gradient", (draws(2, (2, 3)),), {"dim": 1}, grad=(0,)),
        ),
        without={"0-d": "there is no dim to go along; the function makes it one"},
    )


def _norm(x: Array, w: Array | None, b: Array | None, eps: float, centre: bool) -> Array:
    out = np.empty(x.shape)
    for at in np.ndindex(x.shape[:-1]):
        row = x[at].tolist()
        mean = _sum(row) / len(row) if centre else 0.0
        var = _sum([(v - mean) ** 2 for v in row]) / len(row)
        out[at] = [(v - mean) / math.sqrt(var + eps) if var + eps > 0 else NAN for v in row]
    out = out if w is None else out * w
    return out if b is None else out + b


_NAN_ROWS = np.array([[1.0, NAN, 2.0], [1.0, 2.0, 4.0]])
_NORM_0D = {"0-d": "there is no dim to normalise"}
SAMPLES["layer_norm"] = Samples(
    lambda x, w, b, *, eps: _norm(x, w, b, eps, True),
    "product",
    (
        Sample("odd", (draws(1, (5, 3, 7)), draws(2, (7,)), draws(3, (7,))), {"eps": 1e-5}),
        Sample("plain", (draws(1, (5, 7)), None, None), {"eps": 1e-5}),
        Sample("empty", (np.zeros((0, 7)), draws(2, (7,)), None), {"eps": 1e-5}),
        Sample("nan", (_NAN_ROWS, None, None), {"eps": 1e-5}),
        Sample(
            "gradient",
            (draws(1, (2, 3), -3, 3), draws(2, (3,)), draws(3, (3,))),
            {"eps": 0.01},
            grad=(0, 1, 2),
        ),
        Sample("gradient of x", (draws(4, (2, 3), -3, 3), None, None), {"eps": 0.01}, grad=(0,)),
    ),
    without=_NORM_0D,
)
SAMPLES["rms_norm"] = Samples(
    lambda x, w, *, eps: _norm(x, w, None, eps, False),
    "product",
    (
        Sample("odd", (draws(1, (5, 3, 7)), draws(2, (7,))), {"eps": 1e-6}),
        Sample("plain", (draws(1, (5, 7)), None), {"eps": 1e-6}),
        Sample("empty", (np.zeros((0, 7)), draws(2, (7,))), {"eps": 1e-6}),
        Sample("nan", (_NAN_ROWS, None), {"eps": 1e-6}),
        Sample("gradient", (draws(1, (2, 3), -3, 3), draws(2, (3,))), {"eps": 0.01}, grad=(0, 1)),
        Sample("gradient of x", (draws(4, (2, 3), -3, 3), None), {"eps": 0.01}, grad=(0,)),
    ),
    without=_NORM_0D,
)


def _loop_rope(x: Array, cos: Array, sin: Array, *, interleaved: bool) -> Array:
    out, half = x.copy(), cos.shape[-1]
    for i in range(half):
        p, q = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        out[..., p] = x[..., p] * cos[..., i] - x[..., q] * sin[..., i]
        out[..., q] = x[..., q] * cos[..., i] + x[..., p] * sin[..., i]
    return out


_HALF = np.array([[NAN, 1.0, 2.0, INF, 0.5, 1.0]])
SAMPLES["rope"] = Samples(_loop_rope, "product", (
    Sample("odd", (draws(1, (3, 5, 6)), draws(2, (3, 5, 3)), draws(3, (3, 5, 3))),
           {"interleaved": False}),
    Sample("interleaved", (draws(1, (5, 7)), draws(2, (5, 2)), draws(3, (5, 2))),
           {"interleaved": True}),
    Sample("partial", (draws(1, (5, 7)), draws(2, (5, 2)), draws(3, (5, 2))),
           {"interleaved": False}),
    Sample("empty", (np.zeros((0, 6)), np.zeros((0, 3)), np.zeros((0, 3))), {"interleaved": False}),
    Sample("nan", (_HALF, draws(2, (1, 3)), draws(3, (1, 3))), {"interleaved": False}),
    Sample("gradient", (draws(1, (2, 5)), draws(2, (2, 2)), draws(3, (2, 2))),
           {"interleaved": False}, grad=(0, 1, 2)),
    Sample("gradient interleaved", (draws(1, (2, 4)), draws(2, (2, 2)), draws(3, (2, 2))),
           {"interleaved": True}, grad=(0, 1, 2)),
), without=_NORM_0D)  # fmt: skip


def _loop_attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    mask: Array | None,
    q_offset: Array | None,
    kv_lengths: Array | None,
    sinks: Array | None,
    *,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
) -> Array:
    k, v = (_opened(x) if x.dtype == np.uint8 else x for x in (k, v))
    batch, heads, length, _ = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    out = np.zeros((batch, heads, length, v.shape[3]))
    full = (batch, heads, length, keys)
    bias = None if bias is None else np.broadcast_to(bias, full)
    mask = None if mask is None else np.broadcast_to(mask, full)
    for b, h, i in np.ndindex(batch, heads, length):
        at = i + (0 if q_offset is None else int(q_offset[b]))
        scores = {}
        for j in range(keys):
            if (
                (mask is not None and not mask[b, h, i, j])
                or (causal and j > at)
                or (window is not None and at - j >= window)
                or (window is not None and not causal and j - at >= window)
                or (kv_lengths is not None and j >= kv_lengths[b])
            ):
                continue
            s = _sum((q[b, h, i] * k[b, h // group, j]).tolist()) * scale
            s = s if softcap is None else softcap * math.tanh(s / softcap)
            scores[j] = s if bias is None else s + bias[b, h, i, j]
        if scores and max(scores.values()) != -INF:
            last = [] if sinks is None else [float(sinks[0, h, 0, 0])]
            p = _row_softmax([*scores.values(), *last])[: len(scores)]
            for weight, j in zip(p, scores, strict=True):
                out[b, h, i] += weight * v[b, h // group, j]
    return out


def _loop_cache_write(cache: Array, values: Array, offsets: Array) -> Array:
    out = cache.copy()
    for b, h, i, f in np.ndindex(values.shape):
        out[b, h, offsets[b] + i, f] = values[b, h, i, f]
    return out


_CACHE = draws(1, (2, 3, 5, 4))
_NAN_CACHE = np.resize(SPECIAL, (2, 3, 5, 4))
SAMPLES["cache_write"] = Samples(
    _loop_cache_write,
    "exact",
    (
        Sample("odd", (_CACHE, draws(2, (2, 3, 2, 4)), np.array([3, 0]))),
        Sample("to the end", (_CACHE, draws(2, (2, 3, 5, 4)), np.array([0, 0]))),
        Sample("empty", (_CACHE, np.zeros((2, 3, 0, 4)), np.array([5, 1]))),
        Sample("no rows", (_CACHE[:0], np.zeros((0, 3, 1, 4)), np.zeros(0, np.int64))),
        Sample("nan", (_NAN_CACHE, _NAN_CACHE[:, :, :2], np.array([2, 1]))),
    ),
    without={"0-d": "a cache has four dims"},
)


def _loop_selective(
    x: Array, dt: Array, a: Array, b: Array, c: Array, state: Array | None = None
) -> Array:
    """A channel and a token after another, by the definition."""
    (rows, length, channels), n = x.shape, a.shape[1]
    out = np.zeros((rows, length + n, channels))
    for i, ch in np.ndindex(rows, channels):
        h, g = np.zeros(n) if state is None else state[i, ch], ch * b.shape[2] // channels
        for t in range(length):
            h = np.exp(dt[i, t, ch] * a[ch]) * h + dt[i, t, ch] * x[i, t, ch] * b[i, t, g]
            out[i, t, ch] = h @ c[i, t, g]
        out[i, length:, ch] = h
    return out


_SCANNED = (
    draws(1, (2, 5, 6)),
    abs(draws(2, (2, 5, 6))),
    -abs(draws(3, (6, 3))),
    draws(4, (2, 5, 2, 3)),
    draws(5, (2, 5, 2, 3)),
    draws(6, (2, 6, 3)),
)
_NO_0D = {"0-d": "a sequence has dims"}
SAMPLES["selective_scan"] = Samples(
    _loop_selective,
    "several",
    (
        Sample("odd", _SCANNED),
        Sample("anew", (*_SCANNED[:5], None)),
        Sample("empty", tuple(x[:0] if i != 2 else x for i, x in enumerate(_SCANNED))),
        Sample("nan", (np.where(_SCANNED[0] > 1.5, NAN, _SCANNED[0]), *_SCANNED[1:])),
    ),
    floats=("float32", "float64"),
    without=_NO_0D,
)


def _loop_delta(
    r: Array,
    decay: Array,
    k: Array,
    v: Array,
    a: Array | None,
    b: Array | None,
    state: Array | None = None,
    *,
    before: bool,
) -> Array:
    """A head and a token after another, by the definition."""
    rows, heads, length, keys = k.shape
    out = np.zeros((rows, heads, length + keys, v.shape[3]))
    for at in np.ndindex(rows, heads):
        s = np.zeros((keys, v.shape[3])) if state is None else state[at]
        for t in range(length):
            now = decay[at][t][:, None] * s + np.outer(k[at][t], v[at][t])
            if a is not None and b is not None:
                now = now + np.outer(b[at][t], a[at][t] @ s)
            out[at][t] = r[at][t] @ (s if before else now)
            s = now
        out[at][length:] = s
    return out


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _loop_cells(
    x: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    h: Array,
    c: Array | None = None,
    *,
    mode: str,
    back: bool,
) -> Array:
    """A step after another, by the definition of the cells."""
    steps = x if x.ndim == 3 else x[None]
    found: list[Any] = [None] * len(steps)
    for t in range(len(steps))[:: -1 if back else 1]:
        a = np.einsum("ni,gi->ng", steps[t], w_ih) + (0 if b_ih is None else b_ih)
        b = np.einsum("ni,gi->ng", h, w_hh) + (0 if b_hh is None else b_hh)
        if mode == "LSTM":
            i, f, g, o = np.split(a + b, 4, -1)
            i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
            c = f * c + i * g
            h = o * np.tanh(c)
            found[t] = [h, c, i, f, g, o]
        elif mode == "GRU":
            (r, z, n), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
            r, z = _logistic(r + hr), _logistic(z + hz)
            n = np.tanh(n + r * hn)
            h = (1 - z) * n + z * h
            found[t] = [h, r, z, n, hn]
        else:
            h = np.tanh(a + b) if mode == "RNN_TANH" else np.maximum(a + b, 0)
            found[t] = [h]
    out = np.array(found).swapaxes(0, 1)
    return out if x.ndim == 3 else out[:, 0]


def _cells(mode: str, gates: int, length: int = 3, n: int = 2) -> tuple[Array | None, ...]:
    seed = itertools.count(gates)
    w = [draws(next(seed), s) for s in ((gates * 5, 4), (gates * 5, 5), (gates * 5,), (gates * 5,))]
    state = draws(next(seed), (n, 5)), draws(next(seed), (n, 5)) if mode == "LSTM" else None
    return draws(next(seed), (length, n, 4)), *w, *state


def _kinds(**more: Any) -> Iterator[tuple[str, tuple[Array | None, ...]]]:
    for mode, gates in (("LSTM", 4), ("GRU", 3), ("RNN_TANH", 1), ("RNN_RELU", 1)):
        yield mode, _cells(mode, gates, **more)


def _cell_samples() -> Iterator[Sample]:
    for back, label in ((False, "odd"), (True, "back")):
        for mode, given in _kinds():
            checked = (0, 1, 2, 3, 4, 5, 6)[: 7 if mode == "LSTM" else 6]
            yield Sample(label, given, {"mode": mode, "back": back}, checked)
    for mode, (x, *rest) in _kinds():
        assert x is not None
        yield Sample("one step", (x[0], *rest), {"mode": mode, "back": False}, (0, 2))
        plain = (x, *rest[:2], None, None, *rest[4:])
        yield Sample("no biases", plain, {"mode": mode, "back": False})
        lost = (np.where(x > 0.9, NAN, x), *rest)
        yield Sample("nan", lost, {"mode": mode, "back": False})
    for mode, given in _kinds(n=0):
        yield Sample("empty", given, {"mode": mode, "back": False})


SAMPLES["cell_scan"] = Samples(
    _loop_cells, "several", tuple(_cell_samples()), floats=("float32", "float64"), without=_NO_0D
)


def _cell_slopes(
    grad: Array,
    saved: Array,
    x: Array,
    w_ih: Array,
    w_hh: Array,
    h: Array,
    c: Array | None = None,
    *,
    mode: str,
    back: bool,
    wants: tuple[bool, ...],
) -> Array:
    """The slopes of (grad * result).sum() by central differences of the definition."""
    gates = len(w_hh)
    inputs = [x, w_ih, w_hh, np.zeros(gates), _HIDDEN_BIAS[:gates], h, *([] if c is None else [c])]
    slopes = []
    for given in inputs:
        slope = np.zeros(given.shape)
        for at in np.ndindex(given.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() if v is given else v for v in inputs]
                moved[[v is given for v in inputs].index(True)][at] += step
                ends.append((grad * _loop_cells(*moved, mode=mode, back=back)).sum())
            slope[at] = (ends[0] - ends[1]) / 2e-6
        slopes.append(slope.reshape(-1))
    return np.concatenate(slopes)


_HIDDEN_BIAS = draws(77, (20,))


def _slope_samples() -> Iterator[Sample]:
    for back, label in ((False, "odd"), (True, "back")):
        for mode, (x, w_ih, w_hh, _, _, h, c) in _kinds():
            assert x is not None and w_hh is not None and w_ih is not None and h is not None
            gates = len(w_hh)
            saved = _loop_cells(
                x, w_ih, w_hh, np.zeros(gates), _HIDDEN_BIAS[:gates], h, c, mode=mode, back=back
            )
            first = (h,) if c is None else (h, c)
            attrs = {"mode": mode, "back": back, "wants": (True,) * 7}
            given = (draws(5, saved.shape), saved, x, w_ih, w_hh, *first)
            yield Sample(label, given, attrs)
            if not back and mode == "GRU":
                yield Sample(
                    "empty",
                    (given[0][:, :, :0], saved[:, :, :0], x[:, :0], w_ih, w_hh, h[:0]),
                    attrs,
                )


SAMPLES["cell_scan_backward"] = Samples(
    _cell_slopes,
    "difference",
    tuple(_slope_samples()),
    floats=("float64",),
    layouts=("plain", "permuted", "sliced"),
    without={**_NO_0D, "nan": "the slopes of the definition are taken by differences"},
)


_HEADS = tuple(draws(i, (2, 3, 4, n)) for i, n in enumerate((5, 5, 5, 7, 5, 5)))
_FIRST = draws(7, (2, 3, 5, 7))
_MANY = tuple(draws(i, (1, 2, 3, n)) / 8 for i, n in enumerate((80, 80, 80, 8)))
_SIXTEEN = tuple(draws(i, (1, 2, 3, n)) / 4 for i, n in enumerate((16, 16, 16, 12, 16, 16)))
SAMPLES["delta_scan"] = Samples(_loop_delta, "several", (
    Sample("odd", (*_HEADS, _FIRST), {"before": False}),
    Sample("one decay", (_HEADS[0], _HEADS[1][..., :1], *_HEADS[2:4], None, None, _FIRST),
           {"before": True}),
    Sample("anew", (*_HEADS[:4], None, None, None), {"before": False}),
    Sample("many keys", (*_MANY, None, None, draws(8, (1, 2, 80, 8))), {"before": True}),
    Sample("four columns", (*_SIXTEEN, draws(8, (1, 2, 16, 12))), {"before": False}),
    Sample("empty", (*(x[:0] for x in _HEADS), _FIRST[:0]), {"before": False}),
    Sample("nan", (_HEADS[0], np.where(_HEADS[1] > 1.5, NAN, _HEADS[1]), *_HEADS[2:], _FIRST),
           {"before": True}),
), floats=("float32", "float64"), without=_NO_0D)  # fmt: skip


def _loop_pack(x: Array) -> Array:
    """By the definition: bytes, then scales, then zeros up to a whole word."""
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():
        codes, scales = b"", b""
        for at in range(0, len(row), 32):
            block = row[at : at + 32]
            nan = any(v != v for v in block)
            d = NAN if nan else max(map(abs, block)) / 127
            whole = [math.floor(abs(v) / d + 0.5) if 0 < d < INF else 0 for v in block]
            signed = [-n if v < 0 else n for n, v in zip(whole, block, strict=True)]
            codes += struct.pack("32b", *signed)
            scales += struct.pack("<H", 0x7E00) if nan else struct.pack("<e", d)
        rows.append(list(codes + scales + bytes(-len(scales) % 4)))
    width = x.shape[-1] + -(-x.shape[-1] // 64) * 4
    return np.array(rows, np.uint8).reshape(*x.shape[:-1], width)


def _opened(stored: Array) -> Array:
    """The floats of packed rows of 32 or 64."""
    n = stored.shape[-1] // 34 * 32
    out = np.zeros((*stored.shape[:-1], n))
    for at in np.ndindex(*stored.shape[:-1]):
        row = stored[at].tobytes()
        codes = struct.unpack(f"{n}b", row[:n])
        scales = struct.unpack(f"<{n // 32}e", row[n : n + n // 16])
        out[at] = [c * scales[i // 32] for i, c in enumerate(codes)]
    return out


def _of_bytes(seed: int, *shape: int) -> Array:
    """Floats whose packed rows hold them exactly in every dtype: each block reaches 127."""
    x = np.round(draws(seed, shape, -127, 127))
    x[..., ::32] = 127
    return x * 0.25


_NAN_BLOCK = np.concatenate([_of_bytes(1, 2, 32), _of_bytes(2, 2, 32)], 1)
_NAN_BLOCK[0, 40] = NAN
SAMPLES["pack_rows"] = Samples(
    _loop_pack,
    "exact",
    (
        Sample("odd", (_of_bytes(1, 3, 5, 64),)),
        Sample("one block", (_of_bytes(2, 3, 32),)),
        Sample(
            "zeros and odd blocks", (_of_bytes(3, 2, 3, 96) * np.array([[[1.0], [0.0], [2.0]]]),)
        ),
        Sample("empty", (np.zeros((0, 32)),)),
        Sample("nan", (_NAN_BLOCK,)),
    ),
    without={"0-d": "there is no row"},
)


def attention_sample(
    label: str,
    q: tuple[int, ...],
    k: tuple[int, ...],
    *parts: Array | None,
    grad: tuple[int, ...] = (),
    values: int | None = None,
    **attrs: Any,
) -> Sample:
    inputs = [draws(1, q), draws(2, k), draws(3, (*k[:3], values or k[3])), *parts]
    inputs += [None] * (8 - len(inputs))
    given = {"scale": 0.7, "causal": False, "window": None, "softcap": None, **attrs}
    return Sample(label, tuple(inputs), given, grad)


_BIAS = draws(4, (1, 2, 3, 5))
_MASK = draws(5, (2, 1, 3, 5)) > -0.3
_NO_KEY = _MASK.copy()
_NO_KEY[0, 0, 1] = False
_SEES_NONE = np.where(np.arange(5) < 2, 0.3, -INF) * np.ones((1, 1, 3, 1))
_SEES_NONE[0, 0, 2] = -INF
_Q, _K = (2, 2, 3, 4), (2, 2, 5, 4)
_SINKS = np.array([1.5, -2.0]).reshape(1, 2, 1, 1)
_SMALL_Q, _SMALL_K = (1, 2, 2, 2), (1, 1, 3, 2)
SAMPLES["attention"] = Samples(_loop_attention, "product", (
    attention_sample("odd", _Q, _K),
    attention_sample("groups", (2, 6, 3, 4), _K, values=3),
    attention_sample("causal", _Q, _K, causal=True),
    attention_sample("bias", _Q, _K, _BIAS),
    attention_sample("bias of -inf", _Q, _K, _SEES_NONE),
    attention_sample("mask", _Q, _K, None, _MASK),
    attention_sample("a row sees nothing", _Q, _K, None, _NO_KEY),
    attention_sample("window", _Q, _K, window=2),
    attention_sample("causal window", _Q, _K, window=2, causal=True),
    attention_sample("softcap", _Q, _K, softcap=0.5),
    attention_sample("offsets", _Q, _K, None, None, np.array([2, -1]), causal=True),
    attention_sample("mask and offsets", _Q, _K, None, _MASK, np.array([1, 2]), causal=True),
    attention_sample("bias and offsets", _Q, _K, _BIAS, None, np.array([1, 2]), causal=True),
    attention_sample("bias and mask", _Q, _K, _BIAS, _MASK, causal=True),
    attention_sample("lengths", _Q, _K, None, None, None, np.array([4, 0])),
    attention_sample("everything", _Q, _K, _BIAS, _MASK, np.array([1, 2]), np.array([5, 3]),
                     causal=True, window=3, softcap=2.0),
    *(Sample(f"packed, {n} queries",
             (draws(1, (2, 4, n, 32)), _loop_pack(draws(2, (2, 2, 5, 32))),
              _loop_pack(draws(3, (2, 2, 5, 64))), None, None, np.array([2, 1]), None, None),
             {"scale": 0.3, "causal": True, "window": None, "softcap": None}) for n in (1, 3)),
    attention_sample("sinks", (2, 2, 1, 4), _K, None, None, None, None, _SINKS),
    attention_sample("sinks and offsets", _Q, _K, None, None, np.array([2, -1]), None, _SINKS,
                     causal=True, window=3),
    attention_sample("sinks and a mask", _Q, _K, None, _MASK, None, None, _SINKS, causal=True),
    attention_sample("sinks and all", _Q, _K, _BIAS, None, np.array([1, 2]), np.array([5, 0]),
                     _SINKS, causal=True, window=3, softcap=2.0),
    attention_sample("empty", (2, 2, 0, 4), _K),
    attention_sample("no keys", _Q, (2, 2, 0, 4)),
    Sample("nan", (np.full((1, 1, 1, 2), NAN), draws(2, (1, 1, 3, 2)), draws(3, (1, 1, 3, 2)),
                   None, None, None, None, None),
           {"scale": 1.0, "causal": False, "window": None, "softcap": None}),
    attention_sample("gradient", _SMALL_Q, _SMALL_K, draws(4, (1, 2, 1, 3)), softcap=1.5,
                     grad=(0, 1, 2, 3)),
    attention_sample("gradient of sinks", _SMALL_Q, _SMALL_K, None,
                     np.array([[[[True, True, False], [False, False, False]]]]), None, None,
                     _SINKS, grad=(0, 1, 2, 7)),
    attention_sample("gradient masked", _SMALL_Q, _SMALL_K, None,
                     np.array([[[[True, True, False], [False, False, False]]]]), grad=(0, 1, 2)),
    attention_sample("gradient causal", _SMALL_Q, _SMALL_K, None, None, np.array([-1]),
                     np.array([2]), causal=True, window=2, grad=(0, 1, 2)),
    attention_sample("gradient with a bias of -inf", _SMALL_Q, _SMALL_K,
                     np.array([[[[0.5, -INF, 0.1], [-INF, -INF, -INF]]]]), grad=(0, 1, 2)),
), without={"0-d": "attention takes four dims"})  # fmt: skip


# --- convolution --------------------------------------------------------------------------------


def _taps(
    g: tuple[int, ...], w: tuple[int, ...], size: Any, a: dict[str, Any]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(output place, input place, weight place) of every product of a convolution."""
    per = g[1] // a["groups"]
    for b, f, y, x, c, i, j in np.ndindex(*g, *w):
        py = y * a["stride"][0] + i * a["dilation"][0] - a["padding"][0]
        px = x * a["stride"][1] + j * a["dilation"][1] - a["padding"][1]
        if 0 <= py < size[0] and 0 <= px < size[1]:
            yield (b, f, y, x), (b, f // per * w[0] + c, py, px), (f, c, i, j)


def _loop_conv(x: Array, w: Array, bias: Array | None, **a: Any) -> Array:
    size = [
        (x.shape[2 + d] + 2 * a["padding"][d] - a["dilation"][d] * (w.shape[2 + d] - 1) - 1)
        // a["stride"][d]
        + 1
        for d in range(2)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *size))
    for to, source, tap in _taps(out.shape, w.shape[1:], x.shape[2:], a):
        out[to] += x[source] * w[tap]
    return out if bias is None else out + bias[:, None, None]


def _loop_conv_input(g: Array, w: Array, *, size: Any, **a: Any) -> Array:
    out = np.zeros((g.shape[0], w.shape[1] * a["groups"], *size))
    for to, source, tap in _taps(g.shape, w.shape[1:], size, a):
        out[source] += g[to] * w[tap]
    return out


def _loop_conv_weight(x: Array, g: Array, *, size: Any, **a: Any) -> Array:
    out = np.zeros((g.shape[1], x.shape[1] // a["groups"], *size))
    for to, source, tap in _taps(g.shape, out.shape[1:], x.shape[2:], a):
        out[tap] += g[to] * x[source]
    return out


def _conv(
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    **more: Any,
) -> dict[str, Any]:
    return dict(stride=stride, padding=padding, dilation=dilation, groups=groups, **more)


_NO_CONV = {"0-d": "a convolution takes four dims"}
_ALL = _conv((2, 1), (1, 2), (1, 2), 2)
_IMAGE = np.where(draws(6, (1, 1, 4, 4)) > 0.7, NAN, draws(7, (1, 1, 4, 4)))
SAMPLES["conv2d"] = Samples(_loop_conv, "product", (
    Sample("odd", (draws(1, (2, 3, 5, 7)), draws(2, (4, 3, 3, 2)), draws(3, (4,))), _conv()),
    Sample("everything", (draws(1, (2, 4, 5, 6)), draws(2, (6, 2, 3, 2)), draws(3, (6,))), _ALL),
    Sample("depthwise", (draws(1, (1, 3, 4, 4)), draws(2, (3, 1, 2, 2)), None), _conv(groups=3)),
    Sample("empty", (np.zeros((0, 3, 5, 5)), draws(2, (4, 3, 3, 3)), None), _conv()),
    Sample("nan", (_IMAGE, np.ones((1, 1, 2, 2)), None), _conv()),
    Sample("gradient", (draws(1, (1, 2, 3, 4)), draws(2, (2, 1, 2, 2)), draws(3, (2,))), _ALL,
           grad=(0, 1, 2)),
), without=_NO_CONV)  # fmt: skip
SAMPLES["conv2d_input"] = Samples(
    _loop_conv_input,
    "product",
    (
        Sample("odd", (draws(1, (2, 4, 3, 6)), draws(2, (4, 3, 3, 2))), _conv(size=(5, 7))),
        Sample(
            "everything", (draws(1, (2, 6, 3, 8)), draws(2, (6, 2, 3, 2))), {**_ALL, "size": (5, 6)}
        ),
        Sample("empty", (np.zeros((0, 4, 3, 3)), draws(2, (4, 3, 3, 3))), _conv(size=(5, 5))),
        Sample("nan", (_IMAGE, np.ones((1, 1, 2, 2))), _conv(size=(5, 5))),
        Sample(
            "gradient",
            (draws(1, (1, 2, 2, 6)), draws(2, (2, 1, 2, 2))),
            {**_ALL, "size": (3, 4)},
            grad=(0, 1),
        ),
    ),
    without=_NO_CONV,
)
SAMPLES["conv2d_weight"] = Samples(
    _loop_conv_weight,
    "product",
    (
        Sample("odd", (draws(1, (2, 3, 5, 7)), draws(2, (2, 4, 3, 6))), _conv(size=(3, 2))),
        Sample(
            "everything", (draws(1, (2, 4, 5, 6)), draws(2, (2, 6, 3, 8))), {**_ALL, "size": (3, 2)}
        ),
        Sample("empty", (np.zeros((0, 3, 5, 5)), np.zeros((0, 4, 3, 3))), _conv(size=(3, 3))),
        Sample("nan", (_IMAGE, np.ones((1, 1, 3, 3))), _conv(size=(2, 2))),
        Sample(
            "gradient",
            (draws(1, (1, 2, 3, 4)), draws(2, (1, 2, 2, 6))),
            {**_ALL, "size": (2, 2)},
            grad=(0, 1),
        ),
    ),
    without=_NO_CONV,
)


# --- windows and resampling ---------------------------------------------------------------------


def _loop_window_argmax(
    x: Array, *, kernel: Any, stride: Any, padding: Any, dilation: Any, count: Any
) -> Array:
    found = np.full((x.shape[0], *count), -1)
    for n, *at in np.ndindex(found.shape):
        best = None
        for tap in np.ndindex(*kernel):
            place = [at[i] * stride[i] + t * dilation[i] - padding[i] for i, t in enumerate(tap)]
            if any(not 0 <= p < size for p, size in zip(place, x.shape[1:], strict=True)):
                continue
            value = x[(n, *place)]
            if best is None or value > best or value != value:
                best = value
                found[(n, *at)] = np.ravel_multi_index(place, x.shape[1:])
    return found


def _windows(kernel: Any, stride: Any, padding: Any, count: Any, apart: Any = (1, 1, 1)) -> Any:
    return dict(kernel=kernel, stride=stride, padding=padding, dilation=apart, count=count)


_PLANE = _windows((1, 3, 3), (1, 2, 2), (0, 1, 1), (1, 4, 5))
_SPECIAL_PLANE = np.resize(SPECIAL, (2, 1, 7, 9))
SAMPLES["window_argmax"] = Samples(_loop_window_argmax, "exact", (
    Sample("odd", (draws(1, (2, 1, 7, 9)),), _PLANE),
    Sample("wide", (draws(2, (2, 1, 5, 43)),),
           _windows((1, 2, 3), (1, 1, 3), (0, 0, 1), (1, 4, 14))),
    Sample("dilated", (draws(3, (1, 4, 5, 40)),),
           _windows((2, 2, 3), (2, 1, 2), (1, 1, 1), (2, 5, 18), (2, 2, 3))),
    Sample("whole", (draws(4, (3, 2, 4, 9)),),
           _windows((2, 4, 9), (2, 4, 9), (0, 0, 0), (1, 1, 1))),
    Sample("padding alone", (draws(5, (1, 1, 2, 2)),),
           _windows((1, 2, 2), (1, 1, 1), (0, 1, 1), (1, 1, 1), (1, 3, 3))),
    Sample("empty", (np.zeros((0, 1, 7, 9)),), _PLANE),
    Sample("nan", (_SPECIAL_PLANE,), _PLANE),
    Sample("equal", (np.zeros((1, 1, 6, 40)),),
           _windows((1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 3, 20))),
    Sample("int", (np.arange(126)[::-1].reshape(2, 1, 7, 9) - 60,), _PLANE),
), without={"0-d": "windows lie in three dims"})  # fmt: skip


def _loop_window_max(x: Array, **windows: Any) -> Array:
    at = _loop_window_argmax(x, **windows)
    found = [one.reshape(-1)[places] for one, places in zip(x, at, strict=True)]
    return np.stack(found) if found else np.zeros(at.shape)


SAMPLES["window_max"] = Samples(
    _loop_window_max,
    "exact",
    tuple(
        replace(s, grad=(0,) if s.label == "odd" else ())
        for s in SAMPLES["window_argmax"].samples
        if s.label != "padding alone"
    ),
    without={"0-d": "windows lie in three dims"},
)


def _loop_resample(x: Array, at: Array, weight: Array, *_: Array, dim: int) -> Array:
    moved = np.moveaxis(x, dim, 0)
    out = np.zeros((len(at), *moved.shape[1:]))
    for j, t in np.ndindex(at.shape):
        if at[j, t] >= 0:
            out[j] += weight.view(np.float32)[j, t] * moved[at[j, t]]
    return np.moveaxis(out, 0, dim)


_AT = np.array([[0, 1, -1], [2, -1, 0], [4, 4, 3], [-1, -1, -1]])
_TAPS = np.array([[0.5, 0.25, 9.0], [1.0, 9.0, -2.0], [0.125, 3.0, 1.5], [9.0, 9.0, 9.0]])
# The same table from the five old elements.
_BACK = np.array([[0, 1], [0, -1], [1, -1], [2, -1], [2, 2]])
_BACK_TAPS = np.array([[0.5, -2.0], [0.25, 9.0], [1.0, 9.0], [1.5, 9.0], [0.125, 3.0]])


def _bits(weights: Array) -> Array:
    return weights.astype(np.float32).view(np.int32)


_TABLES = (_AT, _bits(_TAPS), _BACK, _bits(_BACK_TAPS))
_ONE = (np.array([[4], [0], [4]]), _bits(np.ones((3, 1))), _BACK[:, :1], _bits(np.ones((5, 1))))
SAMPLES["resample"] = Samples(
    _loop_resample,
    "product",
    (
        Sample("odd", (draws(1, (3, 5, 7)), *_TABLES), {"dim": 1}),
        Sample("last dim", (draws(2, (19, 5)), *_TABLES), {"dim": 1}),
        Sample("first dim", (draws(3, (5, 3)), *_TABLES), {"dim": 0}),
        Sample("wide", (draws(4, (1, 5, 70)), *_TABLES), {"dim": 1}),
        Sample("copies", (draws(5, (2, 5, 3)), *_ONE), {"dim": 1}),
        Sample("copies of the last dim", (draws(5, (9, 5)), *_ONE), {"dim": 1}),
        Sample(
            "no terms", (draws(5, (2, 5)), _AT[:, :0], _TABLES[1][:, :0], *_TABLES[2:]), {"dim": 1}
        ),
        Sample("empty", (np.zeros((0, 5, 2)), *_TABLES), {"dim": 1}),
        Sample("nan", (np.array([[NAN, 1.0, INF, -INF, 0.0]]), *_TABLES), {"dim": 1}),
        Sample("gradient", (draws(6, (2, 5, 3)), *_TABLES), {"dim": 1}, grad=(0,)),
    ),
    layouts=LAYOUTS[:3],
    without={"0-d": "there is no dim to resample"},
)


# --- what another device does not hold ----------------------------------------------------------

# Rules about nan and infinity that hold on cpu and not on webgpu, each with the reason. WGSL lets
# a compiler assume that neither occurs, so every rule here is one that bits and selects cannot
# restore at a bearable price.
WEBGPU_NAN: dict[str, str] = {}


# --- linear algebra -----------------------------------------------------------------------------


def _eliminated(a: Array, b: Array) -> Array:
    """a^-1 b by Gauss and Jordan, with pivots, in Python numbers."""
    if np.isnan(a).any():
        return np.full(b.shape, NAN)
    rows = np.concatenate([a, b], -1)
    for i in range(len(a)):
        at = i + int(np.argmax(np.abs(rows[i:, i])))
        rows[[i, at]] = rows[[at, i]]
        rows[i] /= rows[i, i]
        for j in range(len(a)):
            rows[j] -= 0 if j == i else rows[j, i] * rows[i]
    return rows[:, len(a) :]


def _stacked(fn: Callable[..., Array], *arrays: Array) -> Array:
    """fn of every matrix of a batch."""
    if arrays[0].ndim == 2:
        return np.asarray(fn(*arrays))
    return np.stack([_stacked(fn, *a) for a in zip(*arrays, strict=True)])


def _loop_triangular(a: Array, b: Array, *, upper: bool, unit: bool, full: bool) -> Array:
    a = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    return _stacked(_eliminated, a + unit * np.eye(a.shape[-1]), b)


def _loop_cholesky(a: Array, *, check: bool, upper: bool) -> Array:
    out = np.zeros_like(a)
    for i, j in itertools.product(range(a.shape[-1]), repeat=2):
        if j <= i:
            rest = a[..., i, j] - (out[..., i, :j] * out[..., j, :j]).sum(-1)
            out[..., i, j] = np.sqrt(rest) if i == j else rest / out[..., j, j]
    return out.swapaxes(-1, -2) if upper else out


def _loop_lu(a: Array, *, pivot: bool) -> Array:
    m, n = a.shape
    x, order, swaps = a.copy(), list(range(m)), list(range(m))
    for j in range(min(m, n)):
        at = max(range(j, m), key=lambda i: abs(x[i, j])) if pivot else j
        swaps[j], order[j], order[at] = at, order[at], order[j]
        x[[j, at]] = x[[at, j]]
        for i in range(j + 1, m):
            x[i, j] /= x[j, j]
            x[i, j + 1 :] -= x[i, j] * x[j, j + 1 :]
    return np.column_stack([x, swaps, order])


def _loop_qr(a: Array, *, complete: bool) -> Array:
    """By Gram and Schmidt, with LAPACK's signs: the diagonal of r is negative here."""
    m, n = a.shape
    q = np.zeros((m, n))
    for j in range(n):
        v = a[:, j] - q[:, :j] @ (q[:, :j].T @ a[:, j])
        q[:, j] = -v / np.sqrt((v * v).sum())
    return np.concatenate([q.T, np.triu(q.T @ a)], -1)


def _loop_geqrf(a: Array) -> Array:
    """One reflection after another: v is 1 at the top, tau scales the reflection."""
    m, n = a.shape
    r, out = a.copy(), np.zeros((n + 1, m))
    for j in range(n):
        x = r[j:, j].copy()
        beta = -np.copysign(np.sqrt((x * x).sum()), x[0])
        tau, v = (beta - x[0]) / beta, x / (x[0] - beta)
        v[0] = 1
        r[j:, j:] -= tau * np.outer(v, v @ r[j:, j:])
        r[j + 1 :, j] = v[1:]
        out[n, j] = tau
    out[:n] = r.T
    return out


def _loop_ldl(a: Array, *, hermitian: bool) -> Array:
    """Without swaps; a zero on the diagonal makes a block of the first two of three rows."""
    n = len(a)
    x, places = a.copy(), list(range(1, n + 1))
    if n and a[0, 0] == 0:
        x[2, :2] = _eliminated(a[:2, :2], a[:2, 2:])[:, 0]
        x[2, 2] -= x[2, :2] @ a[:2, 2]
        places[:2] = -2, -2
    else:
        for k in range(n):
            x[k + 1 :, k] /= x[k, k]
            x[k + 1 :, k + 1 :] -= x[k, k] * np.outer(x[k + 1 :, k], x[k + 1 :, k])
    return np.column_stack([np.tril(x), places])


def _loop_ldl_solve(a: Array, places: Array, b: Array, *, hermitian: bool) -> Array:
    """Of the sample below: rows 0 and 2 are swapped, rows 1 and 2 are a block of D."""
    if not a.size:
        return b
    d, low = np.diag(np.diag(a)), np.tril(a, -1) + np.eye(4)
    d[1, 2] = d[2, 1] = a[2, 1]
    low[2, 1], swap = 0, [2, 1, 0, 3]
    return _eliminated((low @ d @ low.T)[swap][:, swap], b)


def _loop_det(a: Array) -> Array:
    """By Leibniz: the sum over permutations."""
    total = 0.0
    for order in itertools.permutations(range(len(a))):
        odd = sum(x > y for x, y in itertools.combinations(order, 2)) % 2
        total += (1 - 2 * odd) * math.prod(a[i, j] for i, j in enumerate(order))
    return np.array(total)


def _loop_cofactor(a: Array) -> Array:
    out = np.empty_like(a)
    for i, j in np.ndindex(a.shape):
        rest = np.delete(np.delete(a, i, 0), j, 1)
        out[i, j] = (1 - 2 * ((i + j) % 2)) * _loop_det(rest)
    return out


def _loop_pinv(a: Array, atol: Array, rtol: Array) -> Array:
    """Of a matrix of full rank."""
    high = a.shape[0] >= a.shape[1]
    return _eliminated(a.T @ a, a.T) if high else _eliminated(a @ a.T, a).T


def _off(at: int, shape: tuple[int, ...]) -> Array:
    """Draws with a large diagonal: far from singular."""
    return draws(at, shape) + 4 * np.eye(shape[-2], shape[-1])


_NO_MATRIX = {"0-d": "a matrix has two dims", "nan": "LAPACK says what comes of it"}
_WIDE: dict[str, Any] = {
    "floats": ("float32", "float64"),
    "layouts": LAYOUTS[:3],
    "without": _NO_MATRIX,
}
_SQUARES = (_off(1, (3, 3)), _off(2, (2, 3, 3)))
_POSITIVE = _SQUARES[1] @ _SQUARES[1].swapaxes(-1, -2)
_SYMMETRIC = draws(4, (3, 3)) + draws(4, (3, 3)).T + np.diag([1.0, 5.0, 9.0])
_NONE = np.zeros((0, 3, 3))
SAMPLES["solve"] = Samples(
    lambda a, b, *, check: _stacked(_eliminated, a, b),
    "several",
    (
        Sample("odd", (_SQUARES[0], draws(3, (3, 2))), {"check": True}, (0, 1)),
        Sample("batch", (_SQUARES[1], draws(3, (2, 3, 2))), {"check": True}),
        Sample("empty", (np.zeros((0, 0)), np.zeros((0, 2))), {"check": True}),
    ),
    **_WIDE,
)
SAMPLES["solve_triangular"] = Samples(
    _loop_triangular,
    "several",
    tuple(
        Sample(name, (a, b), {"upper": upper, "unit": unit, "full": False}, grad)
        for name, a, b, upper, unit, grad in (
            ("odd", _SQUARES[0], draws(3, (3, 2)), True, False, (0, 1)),
            ("lower", _SQUARES[0], draws(3, (3, 2)), False, True, (0, 1)),
            ("batch", _SQUARES[1], draws(3, (2, 3, 2)), False, False, ()),
            ("empty", np.zeros((0, 0)), np.zeros((0, 2)), True, False, ()),
        )
    ),
    **_WIDE,
)
SAMPLES["cholesky"] = Samples(
    _loop_cholesky,
    "several",
    (
        Sample("odd", (_POSITIVE,), {"check": True, "upper": False}),
        Sample("upper", (_POSITIVE,), {"check": True, "upper": True}),
        Sample("empty", (_NONE,), {"check": True, "upper": False}),
        Sample("one", (np.array([[4.0]]),), {"check": False, "upper": False}, (0,)),
    ),
    **_WIDE,
)
SAMPLES["lu"] = Samples(
    _loop_lu,
    "several",
    (
        Sample("odd", (_SQUARES[0],), {"pivot": False}, (0,)),
        Sample("high", (draws(1, (4, 3)),), {"pivot": True}),
        Sample("wide", (draws(1, (2, 4)),), {"pivot": True}),
        Sample("empty", (np.zeros((0, 3)),), {"pivot": False}),
    ),
    **_WIDE,
)
SAMPLES["qr"] = Samples(
    _loop_qr,
    "several",
    (
        Sample("odd", (_off(1, (5, 3)),), {"complete": False}, (0,)),
        Sample("empty", (np.zeros((3, 0)),), {"complete": False}),
    ),
    **_WIDE,
)
# A symmetric matrix without a sign to choose: what svd and eigh give is put together again.
SAMPLES["svd"] = Samples(
    lambda a, *, full: np.array([[1.0, a.item(), 1.0]]),
    "several",
    (
        Sample("odd", (np.array([[2.5]]),), {"full": False}, (0,)),
        Sample("full", (np.array([[1.5]]),), {"full": True}),
    ),
    layouts=("plain",),
    floats=("float32", "float64"),
    without={**_NO_MATRIX, "empty": "see the goldens"},
)
SAMPLES["eigh"] = Samples(
    lambda a, *, upper: np.array([[1.0, a.item()]]),
    "several",
    (Sample("odd", (np.array([[2.5]]),), {"upper": False}, (0,)),),
    layouts=("plain",),
    floats=("float32", "float64"),
    without={**_NO_MATRIX, "empty": "see the goldens"},
)
SAMPLES["eig"] = Samples(
    lambda a: np.array([[[1.0, 0], [a.item(), 0]]]),
    "several",
    (Sample("odd", (np.array([[2.5]]),), {}, (0,)),),
    layouts=("plain",),
    floats=("float32", "float64"),
    without={**_NO_MATRIX, "empty": "see the goldens"},
)
SAMPLES["geqrf"] = Samples(
    _loop_geqrf,
    "several",
    (
        Sample("odd", (_off(1, (5, 3)),)),
        Sample("empty", (np.zeros((3, 0)),)),
    ),
    **_WIDE,
)
_FACTORS = np.array([[2.0, 9, 9, 9], [0.5, 1, 9, 9], [0.25, 3, 1, 9], [1, 0.5, 0.25, 4.0]])
_PLACES = np.array([3, -3, -3, 4])
SAMPLES["ldl"] = Samples(
    _loop_ldl,
    "several",
    (
        Sample("odd", (np.array([[4.0, 1, 2], [1, 5, 1], [2, 1, 6]]),), {"hermitian": False}),
        Sample("two", (np.array([[0.0, 1, 0], [1, 0, 2], [0, 2, 0]]),), {"hermitian": True}),
        Sample("empty", (np.zeros((0, 0)),), {"hermitian": False}),
    ),
    **_WIDE,
)
SAMPLES["ldl_solve"] = Samples(
    _loop_ldl_solve,
    "several",
    (
        Sample("odd", (_FACTORS, _PLACES, draws(3, (4, 2))), {"hermitian": False}),
        Sample(
            "empty",
            (np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros((0, 2))),
            {"hermitian": True},
        ),
    ),
    **_WIDE,
)
_LEAST = (np.zeros(1), np.full(1, 1e-6))
SAMPLES["pinv"] = Samples(
    lambda *x, hermitian: _stacked(_loop_pinv, *x),
    "several",
    (
        Sample("odd", (_off(1, (1, 4, 3)), *_LEAST), {"hermitian": False}, (0, 1, 2)),
        Sample("wide", (_off(2, (1, 2, 4)), *_LEAST), {"hermitian": False}, (0,)),
        Sample("symmetric", (_SYMMETRIC[None], *_LEAST), {"hermitian": True}),
    ),
    **(_WIDE | {"without": {**_NO_MATRIX, "empty": "see the goldens"}}),
)
SAMPLES["det"] = Samples(
    lambda a: _stacked(_loop_det, a),
    "several",
    (
        Sample("odd", (_SQUARES[0],)),
        Sample("batch", (_SQUARES[1],), {}, (0,)),
        Sample("empty", (np.zeros((0, 0)),)),
    ),
    **_WIDE,
)
SAMPLES["cofactor"] = Samples(
    lambda a: _stacked(_loop_cofactor, a),
    "several",
    (
        Sample("odd", (_SQUARES[0],), {}, (0,)),
        Sample("batch", (_SQUARES[1],)),
        Sample("singular", (np.array([[1.0, 2.0], [2.0, 4.0]]),)),
    ),
    **(_WIDE | {"without": {**_NO_MATRIX, "empty": "there is none of it"}}),
)


def samples_on(device: str, name: str) -> tuple[Sample, ...]:
    """The samples of an op that a device holds: on webgpu int64 has 32 bits, float64 is missing."""
    every = SAMPLES[name].samples
    if device != "webgpu":
        return every
    kept = [s for s in every if name not in WEBGPU_NAN or not s.label.startswith("nan")]
    return tuple(_narrowed(name, s) for s in kept)


def _narrowed(name: str, s: Sample) -> Sample:
    attrs = {k: rl.float32 if v is rl.float64 else _within(v) for k, v in s.attrs.items()}
    inputs = [x if x is None or x.dtype != np.int64 else _small(x, name) for x in s.inputs]
    if attrs.get("dtype") is rl.int64 and name == "cast":
        # What int64 in 32 bits cannot hold is an error there, not a wrong number.
        inputs = [_clipped(x) for x in inputs if x is not None]
    return replace(s, inputs=tuple(inputs), attrs=attrs)


def _within(v: Any) -> Any:
    wide = isinstance(v, int) and not isinstance(v, bool) and v >= 2**31
    return v % 2**30 + (2**31 if v == 2**32 else 2**30) if wide else v


def _small(x: Array, name: str) -> Array:
    """Results must fit as well: products of two of these do, powers of the smaller ones."""
    within = np.where(np.abs(x.astype(float)) < 2**31, x, np.where(x > 2**50, 46340, 40000))
    within = np.where(x < -(2**31), -46340, within).astype(np.int64)
    return np.sign(within) * (np.abs(within) % 7) if name == "pow" else within


def _clipped(x: Array) -> Array:
    if x.dtype == np.uint32:
        return np.minimum(x, 2**31 - 1)
    return np.clip(x, -60000, 60000) if x.dtype.kind == "f" else x
