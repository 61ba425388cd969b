"""Elementwise functions of complex numbers, in their real and imaginary parts.

The inverse functions are those of Kahan, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

from math import log as _log
from typing import Any

from rushlight.core.array_api.common import F, Function
from rushlight.core.tensor.tensor import Tensor

_join, _where, _abs = F["complex"], F["where"], F["abs"]
_sin, _cos, _sinh, _cosh = F["sin"], F["cos"], F["sinh"], F["cosh"]


def _plus(z: Tensor, n: float) -> Any:
    return _join(z.real + n, z.imag)  # a sum of complex numbers would lose the sign of a zero


def _exp(z: Tensor) -> Any:
    size = F["exp"](z.real)
    return _join(size * _cos(z.imag), size * _sin(z.imag))


def _expm1(z: Tensor) -> Any:
    # exp(a + bi) - 1, where 1 - cos(b) is 2 sin(b / 2) ** 2: no digits are lost near zero.
    a, b = z.real, z.imag
    half = _sin(b / 2)
    return _join(F["expm1"](a) * _cos(b) - 2 * half * half, F["exp"](a) * _sin(b))


def _ln(z: Tensor) -> Any:
    return _join(F["log"](_abs(z)), F["atan2"](z.imag, z.real))


def _log1p(z: Tensor) -> Any:
    a, b = z.real, z.imag
    near = F["log1p"](a * (2 + a) + b * b) / 2  # exact where z is small
    size = _where(_abs(z) < 0.5, near, F["log"](F["hypot"](1 + a, b)))
    return _join(size, F["atan2"](b, 1 + a))


def _sqrt(z: Tensor) -> Any:
    a, b = z.real, z.imag
    root = F["sqrt"]((_abs(z) + _abs(a)) / 2)
    other = b / (2 * _where(root == 0, 1, root))
    left = _join(_abs(other), F["copysign"](root, b))
    return _where(a >= 0, _join(root, other), left)


def _tanh(z: Tensor) -> Any:
    t, s = F["tanh"](z.real), F["tan"](z.imag)
    return _join(t, s) / _join(F["ones_like"](t), t * s)


def _power(z: Tensor, w: Tensor) -> Any:
    return _where(z == 0, (w == 0).to(z.dtype), _exp(w * _ln(z)))


def _turn(fn: Function, z: Tensor) -> Any:
    """i times fn of z / i."""
    found = fn(_join(z.imag, -z.real))
    return _join(-found.imag, found.real)


def _asin(z: Tensor) -> Any:
    p, q = _sqrt(_plus(-z, 1)), _sqrt(_plus(z, 1))
    crossed = F["conj"](p) * q
    return _join(F["atan2"](z.real, (p * q).real), F["asinh"](crossed.imag))


def _acos(z: Tensor) -> Any:
    p, q = _sqrt(_plus(-z, 1)), _sqrt(_plus(z, 1))
    crossed = F["conj"](q) * p
    return _join(2 * F["atan2"](p.real, q.real), F["asinh"](crossed.imag))


def _acosh(z: Tensor) -> Any:
    p, q = _sqrt(_plus(z, -1)), _sqrt(_plus(z, 1))
    crossed = F["conj"](p) * q
    return _join(F["asinh"](crossed.real), 2 * F["atan2"](p.imag, q.real))


def _atanh(z: Tensor) -> Any:
    return (_log1p(z) - _log1p(-z)) / 2


# By name; each takes and gives complex tensors, the three of isnan's kind give booleans.
COMPLEX: dict[str, Function] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": lambda z: _turn(_asin, z),
    "atan": lambda z: _turn(_atanh, z),
    "atanh": _atanh,
    "cos": lambda z: _join(_cos(z.real) * _cosh(z.imag), -_sin(z.real) * _sinh(z.imag)),
    "cosh": lambda z: _join(_cosh(z.real) * _cos(z.imag), _sinh(z.real) * _sin(z.imag)),
    "exp": _exp,
    "expm1": _expm1,
    "isfinite": lambda z: F["isfinite"](z.real) & F["isfinite"](z.imag),
    "isinf": lambda z: F["isinf"](z.real) | F["isinf"](z.imag),
    "isnan": lambda z: F["isnan"](z.real) | F["isnan"](z.imag),
    "log": _ln,
    "log10": lambda z: _ln(z) / _log(10),
    "log1p": _log1p,
    "log2": lambda z: _ln(z) / _log(2),
    "pow": _power,
    "reciprocal": lambda z: F["ones_like"](z) / z,
    "round": lambda z: _join(F["round"](z.real), F["round"](z.imag)),
    "sign": lambda z: z / _where(z == 0, 1, _abs(z)),
    "sin": lambda z: _join(_sin(z.real) * _cosh(z.imag), _cos(z.real) * _sinh(z.imag)),
    "sinh": lambda z: _join(_sinh(z.real) * _cos(z.imag), _cosh(z.real) * _sin(z.imag)),
    "sqrt": _sqrt,
    "square": lambda z: z * z,
    "tan": lambda z: _turn(_tanh, z),
    "tanh": _tanh,
}
