"""What a file of samples is made of: Sample and Samples, and what several files use.

The references are written from the definition of each op (loops, Python's math, Python integers)
and share no code with the kernels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

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
        out = np.array([_number(fn, *v) for v in zip(*flat, strict=True)])
        return out.reshape(np.shape(arrays[0]))

    return apply


def _number(fn: Callable[..., Any], *v: Any) -> Any:
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


# Inputs that several files use.
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
BITS = np.array([True, False, True, True, False])
PAIRS = np.array(list(itertools.product([NAN, INF, -INF, 0.0, -0.0, 1.5, -2.0], repeat=2))).T


def movement(
    reference: Callable[..., Array],
    *calls: tuple[tuple[int, ...], dict[str, Any]],
    layouts: tuple[str, ...] = LAYOUTS,
    without: dict[str, str] | None = None,
    family: str = "exact",
) -> Samples:
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
    return Samples(reference, family, tuple(samples), layouts, without=without or {})


def created(label: str, shape: tuple[int, ...], **attrs: Any) -> Sample:
    """A sample of an op that takes no tensor and makes one."""
    return Sample(label, (), {"shape": shape, **attrs})


def largest(values: list[float]) -> float:
    """The largest of some values; nan where one is nan."""
    return NAN if any(v != v for v in values) else max(values)


def total(values: list[float]) -> float:
    """The sum of the values, rounded once where they are finite."""
    finite = all(map(math.isfinite, values))
    return math.fsum(values) if finite else sum(values)
