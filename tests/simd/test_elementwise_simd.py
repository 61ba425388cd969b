"""Elementwise kernels: errors in ulp, special values, layouts, dtypes, in-place forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import lowering
from rushlight.core.tools.testing import draws, ulp_distance

Array = npt.NDArray[Any]
Both = Callable[..., tuple[Any, Any]]
INF, NAN = float("inf"), float("nan")
SPECIAL = [
    0.0, -0.0, INF, -INF, NAN, 1e-45, -1e-45, 1.1754942e-38, 1e-38, 1.6e38, -1.6e38, 1.0,
    -1.0, 88.7, 88.8, -87.4, -103.9, -104.1, 0.5, 1.5, 2.5, -2.5, 0.625, 0.875, 4.0, -4.1,
]  # fmt: skip


def _dense(low: float, high: float, count: int = 200_000) -> Array:
    """Floats of [low, high], some of each exponent and some even."""
    even = np.linspace(low, high, count // 2)
    top = max(abs(low), abs(high))
    spread = top * 2.0 ** draws(5, (count // 2,), -40, 0) * np.sign(draws(6, (count // 2,)))
    spread = spread[(spread >= low) & (spread <= high)]
    return np.concatenate([even, spread]).astype(np.float32)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
# name: (reference in float64, interval, most ulp).
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], tuple[float, float], float]] = {
    "exp": (np.exp, (-104, 89), 1),
    "log": (np.log, (1e-45, 3e38), 1),
    "log1p": (np.log1p, (-1, 1e4), 2),
    "sqrt": (np.sqrt, (0, 3e38), 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-38, 3e38), 1.5),
    "reciprocal": (lambda x: 1 / x, (1e-37, 1e37), 0.5),
    "sin": (np.sin, (-1e5, 1e5), 2),
    "cos": (np.cos, (-1e5, 1e5), 2),
    "tanh": (np.tanh, (-10, 10), 2),
    "erf": (_erf, (-5, 5), 2),
    "sigmoid": (_sigmoid, (-85, 30), 3),
    "silu": (lambda x: x * _sigmoid(x), (-85, 30), 4),
    "gelu": (lambda x: x * _erfc(-x * math.sqrt(0.5)) / 2, (0, 30), 4),
    "gelu_tanh": (
        lambda x: x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
        (0, 30),
        4,
    ),
}


def _call(name: str) -> Callable[..., rl.Tensor]:
    if name == "gelu_tanh":
        return lambda x: rl.gelu(x, approximate="tanh")
    found: Callable[..., rl.Tensor] = getattr(rl, name, None) or getattr(rl.Tensor, name)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_in_ulp(variant: str, name: str) -> None:
    reference, (low, high), most = FUNCTIONS[name]
    x = _dense(low, high)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    keep = np.abs(want) <= np.finfo(np.float32).max
    distance = ulp_distance(_call(name)(rl.from_numpy(x)).numpy()[keep], want[keep], "float32")
    worst = int(np.argmax(distance))
    assert distance[worst] <= most, (float(x[keep][worst]), float(distance[worst]))


def test_the_tail_of_gelu(variant: str) -> None:
    x = _dense(-8, 0)
    for name in ("gelu", "gelu_tanh"):
        want = FUNCTIONS[name][0](x.astype(np.float64))
        assert np.abs(_call(name)(rl.from_numpy(x)).numpy() - want).max() < 2e-7


def test_sines_of_large_numbers(variant: str) -> None:
    x = (10.0 ** draws(1, (20_000,), 4.5, 38.4) * np.sign(draws(2, (20_000,)))).astype(np.float32)
    # Exact multiples of pi taken away, in whole numbers: pi to 78 digits behind the point.
    pi = 3141592653589793238462643383279502884197169399375105820974944592307816406286209
    unit = 10**78

    def sine(v: float) -> float:
        halves, rest = divmod(int(v * 1024) * unit // 1024 + pi // 2, pi)
        return math.sin((rest - pi // 2) / unit) * (1 - 2 * (halves % 2))

    want = np.array([sine(v) for v in x.tolist()])
    assert ulp_distance(rl.sin(rl.from_numpy(x)).numpy(), want, "float32").max() <= 2


def test_special_values_are_those_of_numpy(variant: str, both: Both) -> None:
    x = np.array(SPECIAL, np.float32)
    for name in [
        *FUNCTIONS,
        "floor",
        "ceil",
        "trunc",
        "round",
        "neg",
        "abs",
        "square",
        "relu",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
    ]:
        mine, theirs = (t.numpy() for t in both(_call(name), rl.from_numpy(x)))
        same = (mine == theirs) | (ulp_distance(mine, theirs, "float32") <= 4)
        # gelu's tail is absolute; NumPy's erf of subnormal numbers is not exact
        bound = {"gelu": 1e-6, "gelu_tanh": 1e-6, "erf": 1e-42}.get(name, 0)
        with np.errstate(all="ignore"):
            near = np.abs(mine.astype(float) - theirs) < bound
        assert np.all(same | near), (name, x[~same], mine[~same], theirs[~same])
        # NumPy's maximum of 0 and -0 is either one, as the machine has it.
        if name not in ("sigmoid", "gelu", "gelu_tanh", "silu", "relu"):
            signs = (np.signbit(mine) == np.signbit(theirs)) | np.isnan(theirs.astype(float))
            assert np.all(signs), (name, x[~signs])


BINARY = (
    "add sub mul div maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor"
).split()
DTYPES = "bool uint8 int8 int16 int32 uint32 int64 float16 bfloat16 float32 float8_e4m3fn".split()


def _values(dtype: str, count: int, seed: int) -> rl.Tensor:
    if dtype == "bool":
        return rl.from_numpy(draws(seed, (count,)) > 0)
    kind = rl.DTYPES[dtype] if hasattr(rl, "DTYPES") else getattr(rl, dtype)
    if kind.is_floating_point:
        x = draws(seed, (count,), -20, 20)
        x[::13] = np.resize([0.0, NAN, INF, -INF, 1.0], x[::13].shape)
        return rl.from_numpy(x.astype(np.float32)).to(kind)
    info = np.iinfo(kind.numpy)
    words = draws(seed, (count,), 0, 1) * (float(info.max) - float(info.min)) * 0.99
    x = (words.astype(object) // 1 + info.min).astype(np.int64)
    x[::7] = np.resize([0, 1, 2, int(info.min), int(info.max)], x[::7].shape)
    return rl.from_numpy(x.astype(kind.numpy))


def _equal(mine: rl.Tensor, theirs: rl.Tensor, label: Any) -> None:
    assert mine.dtype is theirs.dtype and mine.shape == theirs.shape, label
    a, b = (np.asarray(t.host_values(), np.float64) for t in (mine, theirs))
    bad = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    assert not bad.any(), (label, a[bad][:5], b[bad][:5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_operands_in_every_dtype(variant: str, dtype: str, both: Both) -> None:
    a, b = _values(dtype, 1001, 1), _values(dtype, 1001, 2)
    for name in BINARY:
        if (name == "div" or name.startswith("bitwise")) and a.dtype.is_floating_point == (
            name != "div"
        ):
            continue
        if name == "sub" and dtype == "bool":
            continue
        call = _call(name)
        assert lowering.record(name, (a, b), call(a, b), {}) is not None, name
        for x, y in ((a, b), (a[3:], b[:-3]), (a[::3], b[::3]), (a, b[5:6])):
            _equal(*both(call, x, y), (name, dtype))
    if dtype != "bool":
        for name in ("neg", "abs", "square", "relu", "logical_not", "isnan", "isinf", "isfinite"):
            call = _call(name)
            _equal(*both(call, a[1:]), (name, dtype))


@pytest.mark.parametrize("to", [*DTYPES, "float64", "float8_e5m2"])
def test_conversions(variant: str, to: str, both: Both) -> None:
    for dtype in [*DTYPES, "float8_e5m2"]:
        x = _values(dtype, 777, 3)
        for part in (x, x[1:], x[::2], x[3:4].expand(5)):
            _equal(*both(part.to, to), (dtype, to))
    edges = [
        1e30, -1e30, INF, -INF, NAN, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 0.5, -0.9,
        255.5, 256.0, -1.0, 127.9, 128.0, 4294967295.0, 4294967296.0, -32769.0, 65535.0,
    ]  # fmt: skip
    for source in ("float32", "float64"):
        x = rl.tensor(edges, dtype=source)
        _equal(*both(x.to, to), (source, to))


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_to_narrow_floats_is_exact(variant: str, to: str, both: Both) -> None:
    """All values near every boundary between two numbers of the narrow format."""
    codes = np.arange(1 << (8 * getattr(rl, to).itemsize), dtype=np.uint32)
    kind = getattr(rl, to)
    bits = codes.astype(f"uint{8 * kind.itemsize}").view(kind.numpy)
    known = rl.Tensor.from_buffer(bits, kind, codes.shape).to("float32")
    finite = np.unique(known.numpy()[np.isfinite(known.numpy())].astype(np.float64))
    middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    ends = np.array([65519.9, 65520, 61439, 61440, 463, 464, 465, 3.4e38, NAN, INF], np.float32)
    near = np.concatenate(
        [
            middle,
            np.nextafter(middle, np.float32(INF)),
            ends,
            -ends,
            np.nextafter(middle, np.float32(-INF)),
            finite.astype(np.float32),
        ]
    )
    x = rl.from_numpy(near)
    mine, theirs = both(x.to, to)
    _equal(mine, theirs, to)
    back, numpy_back = both(mine.to, "float32")
    _equal(back, numpy_back, to)
    signs = np.signbit(back.numpy()) == np.signbit(near)
    assert np.all(signs | np.isnan(near)), "zeros keep their sign"


SHAPES = [
    (),
    (0,),
    (1,),
    (7,),
    (3, 0, 2),
    (513,),
    (2, 3, 5),
    (33, 17),
    (3, 1, 1025),
    (200, 3),
    (40, 1000),
    (2, 2, 2, 2, 2, 2, 2, 3),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_layouts(variant: str, shape: tuple[int, ...], both: Both) -> None:
    x, y = (rl.from_numpy(np.asarray(draws(seed, shape), np.float32)) for seed in (1, 2))
    want = x.numpy() * y.numpy()
    assert np.array_equal((x * y).numpy(), want)
    assert np.array_equal((x * 3.0).numpy(), x.numpy() * np.float32(3))
    assert np.array_equal((2.0 - x).numpy(), np.float32(2) - x.numpy())
    if len(shape) > 1:
        order = list(range(len(shape)))[::-1]
        assert np.array_equal((x.permute(*order) * y.permute(*order)).numpy(), want.T)
        for d in range(len(shape)):
            one = y.narrow(d, 0, min(1, shape[d]))
            _equal(*both(rl.add, x, one), (shape, d))
        assert np.array_equal(
            (x[1:, ::2] * y[:-1, ::2]).numpy(), x.numpy()[1:, ::2] * y.numpy()[:-1, ::2]
        )
    half = x.half()
    assert np.array_equal((half + half).numpy(), half.numpy() + half.numpy())


def test_in_place_forms(variant: str) -> None:
    base = draws(1, (40, 50)).astype(np.float32)
    x = rl.from_numpy(base.copy())
    x.add_(x)
    assert np.array_equal(x.numpy(), base + base)
    x = rl.from_numpy(base.copy())
    x[3:, 1:].mul_(2.0)
    want = base.copy()
    want[3:, 1:] *= 2
    assert np.array_equal(x.numpy(), want)
    x.t().sub_(1.0)
    assert np.array_equal(x.numpy(), want - 1)
    x = rl.from_numpy(base.copy())
    x[1:].add_(x[:-1])
    want = base.copy()
    want[1:] += base[:-1]
    assert np.array_equal(x.numpy(), want), "operands that overlap"
    shared = base.copy()
    rl.from_numpy(shared[1:]).add_(rl.from_numpy(shared[:-1]))
    assert np.array_equal(shared, want), "two tensors over one array"


def test_where(variant: str, both: Both) -> None:
    condition = rl.from_numpy(draws(1, (37, 41)) > 0)
    for dtype in DTYPES:
        a = _values(dtype, 37 * 41, 2).reshape(37, 41)
        b = _values(dtype, 37 * 41, 3).reshape(37, 41)
        for c, x, y in (
            (condition, a, b),
            (condition[:, :1], a, b[:1]),
            (condition.t(), a.t(), b.t()),
            (condition[:, ::2], a[:, 1::2], b[0, 0]),
            (condition, b[0, 0], a),
            (condition, a, b[0, 0]),
        ):
            if x.ndim and x.shape[1] != c.shape[1] and 1 not in (x.shape[1], c.shape[1]):
                c = c[:, : x.shape[1]]
            _equal(*both(rl.where, c, x, y), dtype)


@pytest.mark.native  # threads
def test_results_do_not_depend_on_the_threads(variant: str) -> None:
    x = rl.from_numpy(draws(1, (3, 70_001), -9, 9).astype(np.float32))
    found = []
    for count in (1, 2, 5):
        rl.set_num_threads(count)
        found.append((rl.gelu(x) + x[:1]).numpy())
    rl.set_num_threads(2)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
