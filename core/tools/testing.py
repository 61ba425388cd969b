"""Comparisons for tests: the tolerance table, assert_close, check_gradient, distances in ulp.

References are computed in float64, whatever the dtype of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis import philox
from rushlight.core.basis.dtype import DType, as_dtype, float64
from rushlight.core.basis.unpacking import by_formula
from rushlight.core.jit.function import jit
from rushlight.core.tensor import sweep
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The bounds on a result's distance from its reference; meeting either one is enough.

    ulp: units in the last place of the result's dtype, at the reference. rtol and atol:
    |actual - expected| <= atol + rtol * |expected|.
    """

    ulp: float = 0
    rtol: float = 0
    atol: float = 0


# By family of ops, then by dtype of the result. Integers and booleans are always exact.
TOLERANCES: dict[str, dict[str, Tolerance]] = {
    # Copies, comparisons, integers, conversions, and arithmetic that IEEE 754 rounds once.
    "exact": {},
    # Elementwise functions. float32 functions may differ by 4 ulp. Narrower floats are computed
    # in float32 and rounded once, so only a near tie makes a difference. float64 is compared
    # with float64, which is itself rounded.
    "elementwise": {
        "float64": Tolerance(ulp=4),
        "float32": Tolerance(ulp=4),
        "float16": Tolerance(ulp=1),
        "bfloat16": Tolerance(ulp=1),
        "float8_e4m3fn": Tolerance(ulp=1),
        "float8_e5m2": Tolerance(ulp=1),
    },
    # Functions with a difference of nearly equal numbers: 1 + erf(x) in the tail of gelu (times
    # x, so up to 6 times 2**-23), sin, cos and tan near their zeros, log near one. The bound is
    # absolute there, as in PyTorch, and 4 ulp elsewhere.
    "cancelling": {
        "float64": Tolerance(ulp=8, atol=1e-14),
        "float32": Tolerance(ulp=4, atol=1e-6),
        "float16": Tolerance(ulp=1, atol=1e-6),
        "bfloat16": Tolerance(ulp=1, atol=1e-6),
    },
    # Sums of a few hundred elements of size one: each addition rounds.
    "sum": {
        "float64": Tolerance(rtol=1e-13, atol=1e-13),
        "float32": Tolerance(rtol=4e-6, atol=4e-6),
        "float16": Tolerance(ulp=1, atol=4e-6),
        "bfloat16": Tolerance(ulp=1, atol=4e-6),
    },
    # Matrix products and ops made of them (convolution, attention, normalisation): a BLAS may
    # add in any order.
    "product": {
        "float64": Tolerance(rtol=1e-12, atol=1e-12),
        "float32": Tolerance(rtol=1e-5, atol=1e-5),
        "float16": Tolerance(ulp=1, atol=1e-5),
        "bfloat16": Tolerance(ulp=1, atol=1e-5),
    },
    # Box and Muller: a radius near zero and a cosine near its zeros lose relative precision.
    "normal": {
        "float64": Tolerance(rtol=4e-6, atol=4e-6),
        "float32": Tolerance(rtol=4e-6, atol=4e-6),
        "float16": Tolerance(ulp=1, atol=4e-6),
        "bfloat16": Tolerance(ulp=1, atol=4e-6),
    },
    # Results of several ops in a narrow dtype, each of which rounds (gradients).
    "several": {
        "float64": Tolerance(rtol=1e-11, atol=1e-11),
        "float32": Tolerance(rtol=2e-5, atol=2e-5),
        "float16": Tolerance(rtol=1e-2, atol=1e-2),
        "bfloat16": Tolerance(rtol=6e-2, atol=6e-2),
    },
    # Central differences in float64 with step 1e-5: truncation is about 1e-10 of the third
    # derivative and rounding about 1e-11 of the value.
    "difference": {"float64": Tolerance(rtol=2e-6, atol=2e-7)},
}

# Bits of the mantissa, smallest normal exponent, largest finite value.
_FORMATS: dict[str, tuple[int, int, float]] = {
    "float64": (52, -1022, float(np.finfo(np.float64).max)),
    "float32": (23, -126, float(np.finfo(np.float32).max)),
    "float16": (10, -14, 65504.0),
    "bfloat16": (7, -126, (2 - 2.0**-7) * 2.0**127),
    "float8_e4m3fn": (3, -6, 448.0),
    "float8_e5m2": (2, -14, 57344.0),
}


def ulp_distance(actual: Any, expected: Any, dtype: DType | str) -> Array:
    """|actual - expected| in units of the last place that `dtype` has at `expected`, elementwise.

    Both are converted to float64. Equal infinities and two nan are at distance 0; a nan or an
    infinity and another value are at distance inf. An `expected` beyond the largest finite value is
    first rounded to the dtype: to infinity, or to float8_e4m3fn's largest value.

    Raises KeyError for a dtype that is not floating.
    """
    name = as_dtype(dtype).name
    bits, least, top = _FORMATS[name]
    with np.errstate(all="ignore"):
        a, e = np.broadcast_arrays(np.asarray(actual, np.float64), np.asarray(expected, np.float64))
        if name == "float8_e4m3fn":
            e = np.clip(e, -top, top)
        exponent = np.frexp(np.where(np.isfinite(e), e, 0))[1] - 1
        exponent = np.maximum(np.where(e == 0, least, exponent), least)
        step = np.ldexp(1.0, np.maximum(exponent - bits, -1074))
        over = (np.abs(e) >= top + np.ldexp(0.5, exponent - bits)) & (name != "float64")
        e = np.where(over, np.copysign(np.inf, e), e)
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        distance = np.where(np.isfinite(a) & np.isfinite(e), np.abs(a - e) / step, np.inf)
        return np.where(same, 0.0, distance)


def assert_close(
    actual: Any, expected: Any, family: str = "elementwise", *, label: str = ""
) -> None:
    """Fail unless `actual` is within the table's tolerance of `expected`.

    actual: a Tensor (its dtype picks the row) or an array. expected: an array or numbers, computed
    in float64. Shapes must be equal, and nan and infinities must be at the same positions. The
    message names the worst element.

    `family` and the dtype say the row of tolerances, `label` begins the message. It raises
    AssertionError.
    """
    tensor = actual.detach() if isinstance(actual, Tensor) else from_numpy(np.asarray(actual))
    values = np.asarray(tensor.host_values())
    want = np.asarray(expected)
    where = f"{label}: " if label else ""
    if values.shape != want.shape:
        raise AssertionError(f"{where}shape is {values.shape}, expected {want.shape}")
    if not tensor.dtype.is_floating_point or family == "exact":
        bad = ~((values == want) | ((values != values) & (want != want)))
        text = "exactly"
    else:
        t = TOLERANCES[family][tensor.dtype.name]
        bad = (ulp_distance(values, want, tensor.dtype) > t.ulp) & ~_near(values, want, t)
        text = f"within {t}"
    if np.any(bad):
        worst = np.unravel_index(int(np.argmax(bad)), bad.shape)
        place = tuple(int(i) for i in worst)
        ulps = (
            f", {ulp_distance(values[worst], want[worst], tensor.dtype):.3g} ulp apart"
            if tensor.dtype.is_floating_point
            else ""
        )
        raise AssertionError(
            f"{where}{int(bad.sum())} of {bad.size} {tensor.dtype.name} elements are not {family} "
            f"{text}; at {place}: {values[worst]!r}, expected {want[worst]!r}{ulps}"
        )


def _near(values: Array, want: Array, t: Tolerance) -> Array:
    a, e = values.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.isfinite(e) & (np.abs(a - e) <= t.atol + t.rtol * np.abs(e))


@cache
def joins_products(device: str) -> bool:
    """Whether the device may round a * b + c once where both are computed by one kernel.

    WGSL leaves that to drivers; NVIDIA's do it. Fused and captured ops are bit by bit what they are
    one by one only where it is not done.
    """
    x = from_numpy(np.array([1 + 2**-12], np.float32)).to(device)
    captured: Any = jit(lambda x, y: x * x - y)
    return any(captured(x, x * x).item() for _ in range(3))  # the first one is a capture


def alike(found: Any, wanted: Any, device: str) -> bool:
    """Whether nested lists and dicts of numbers are the same: exactly, or to about 1e-3 where the
    device joins products and sums.

    `found` and `wanted` are they. It raises nothing.
    """
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(
            alike(found[k], v, device) for k, v in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(
            alike(f, w, device) for f, w in zip(found, wanted, strict=True)
        )
    if isinstance(wanted, float) and joins_products(device):
        return bool(np.isclose(found, wanted, rtol=1e-3, atol=1e-4, equal_nan=True))
    return bool(found == wanted)


def draws(seed: int, shape: Sequence[int], low: float = -1, high: float = 1) -> Array:
    """float64 numbers in [low, high), equal on every machine: test data without numpy.random.

    `seed` says which, `shape` how many. It raises nothing.
    """
    count = int(np.prod(shape, dtype=np.int64))
    words = philox.words(seed, 0, count).astype(np.float64).reshape(tuple(shape))
    return low + (high - low) * words * 2.0**-32


def block_draws(seed: int, dtype: DType, count: int) -> npt.NDArray[np.uint8]:
    """The bytes of `count` random blocks of a quantized dtype, with values of about 1 at most.

    `seed` says which. Raises nothing for a quantized dtype.
    """
    floats = [field for field in dtype.fields.values() if field.kind in ("f16", "f32")]
    if not floats:
        return _moderate_blocks(seed, dtype, count)
    raw = draws(seed, (count, dtype.itemsize), 0, 256).astype(np.uint8)
    scales = draws(seed + 1, (len(floats), count, 1), 0.2, 1)

    def scale(factor: float) -> None:
        for field, each in zip(floats, scales, strict=True):
            store = np.float16 if field.kind == "f16" else np.float32
            stored = (each * factor).astype(store).view(np.uint8)
            for k in range(field.count or 1):
                start = field.offset + k * stored.shape[1]
                raw[:, start : start + stored.shape[1]] = stored

    scale(1)
    scale(1 / np.abs(by_formula(dtype, raw)).max())
    return raw


def _moderate_blocks(seed: int, dtype: DType, count: int) -> npt.NDArray[np.uint8]:
    """Of many random blocks the first whose values are moderate, as no field says their scale."""
    raw = draws(seed, (128 * count, dtype.itemsize), 0, 256).astype(np.uint8)
    for field in dtype.fields.values():
        if field.kind == "ue4m3":
            raw[:, field.offset : field.offset + (field.count or 1)] %= 64
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.abs(by_formula(dtype, raw)).max(axis=-1)
    moderate: npt.NDArray[np.uint8] = raw[(largest > 0.01) & (largest < 2)][:count]
    assert len(moderate) == count, dtype
    return moderate


def check_gradient(
    fn: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Sequence[Any],
    *,
    second: bool = True,
    step: float = 1e-5,
    label: str = "",
) -> None:
    """Fail unless the gradients of `fn` agree with central differences, in float64 on cpu.

    fn: takes one Tensor per input and returns one or several Tensors. The floating ones that
    require a gradient are checked together, as a sum with fixed weights. inputs: float64 arrays, at
    points where `fn` is smooth. second: also check the derivatives of the gradient.

    `step` is the differences', `label` begins the message. It raises AssertionError.
    """
    arrays = [np.array(x, np.float64) for x in inputs]

    def value(*tensors: Tensor) -> Tensor:
        out = fn(*tensors)
        parts = [out] if isinstance(out, Tensor) else list(out)
        return _weighted([p for p in parts if p.requires_grad], 1)

    def slope(*tensors: Tensor) -> Tensor:
        grads = sweep.grad(value(*tensors), tensors, create_graph=True, allow_unused=True)
        return _weighted([g for g in grads if g is not None], 2)

    where = f"{label}: " if label else ""
    _compare(value, arrays, step, f"{where}first")
    if second:
        _compare(slope, arrays, step, f"{where}second")


def _weighted(parts: Sequence[Tensor], seed: int) -> Tensor:
    """The sum of all elements with distinct weights, so that errors do not cancel."""
    if not parts:
        raise AssertionError("check_gradient: no result requires a gradient")
    total: Tensor | None = None
    for i, output in enumerate(parts):
        weight = from_numpy(draws(seed + 10 * i, output.shape, 0.5, 1.5)).to(output.device)
        term = (output * weight).sum()
        total = term if total is None else total + term
    assert total is not None
    return total


def _compare(fn: Callable[..., Tensor], arrays: Sequence[Array], step: float, which: str) -> None:
    leaves = [from_numpy(x.copy()).requires_grad_() for x in arrays]
    out = fn(*leaves)
    if not out.requires_grad:
        # The gradient of a linear function is constant.
        gradients: tuple[Tensor | None, ...] = (None,) * len(leaves)
    else:
        gradients = sweep.grad(out, leaves, allow_unused=True)
    for i, x in enumerate(arrays):
        grad = gradients[i]
        have = np.zeros(x.shape) if grad is None else grad.detach().numpy()
        if grad is not None and grad.dtype is not float64:
            raise AssertionError(f"{which}: the gradient of input {i} is {grad.dtype.name}")
        want = np.empty(x.shape)
        for index in np.ndindex(x.shape):
            ends = []
            for sign in (1, -1):
                moved = [y.copy() for y in arrays]
                moved[i][index] += sign * step
                tensors = [from_numpy(y).requires_grad_() for y in moved]
                ends.append(fn(*tensors).item())
            want[index] = (ends[0] - ends[1]) / (2 * step)
        assert_close(have, want, "difference", label=f"{which} derivative by input {i}")
