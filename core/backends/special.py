"""Special functions that NumPy lacks: the error function, and activations built on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Rational minimax approximations of Cody (Math. Comp. 23, 1969), relative error below 1e-15.
_SMALL_P = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_SMALL_Q = (
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
)
_MID_P = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_MID_Q = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
# The float32 rational of Eigen and XLA, within 4 ulp of erf up to 4.0; past 1 from 4.02 on.
_F32_P = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_F32_Q = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def _poly(coefficients: tuple[float, ...], x: Array) -> Array:
    result = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        result *= x
        result += x.dtype.type(c)
    return result


def _erf64(x: Array) -> Array:
    a = np.abs(x)
    small = np.minimum(a, 0.46875)
    inner = np.copysign(small, x) * _poly(_SMALL_P, small * small) / _poly(_SMALL_Q, small * small)
    mid = np.clip(a, 0.46875, 6.0)  # erf is 1 in float64 from 5.93 on
    outer = 1.0 - np.exp(-mid * mid) * _poly(_MID_P, mid) / _poly(_MID_Q, mid)
    values: Array = np.where(a <= 0.46875, inner, np.where(np.isnan(x), x, np.copysign(outer, x)))
    return values


def _blockwise(fn: Any, x: Array, out: Array) -> Array:
    """fn over pieces that stay in the cache: an expression of many steps is memory-bound."""
    if x.size <= 1 << 15 or not (x.flags.c_contiguous and out.flags.c_contiguous):
        out[...] = fn(x)
        return out
    flat, result = x.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, 1 << 14):
        piece = slice(start, start + (1 << 14))
        result[piece] = fn(flat[piece])
    return out


def _erf(x: Array) -> Array:
    if x.dtype != np.float32:
        return _erf64(x)
    # At 4.1 the rational is past 1, so that far out erf is 1 and not an ulp less: gelu multiplies
    # 1 + erf by x.
    c = np.clip(x, np.float32(-4.1), np.float32(4.1))
    square = c * c
    c *= _poly(_F32_P, square)
    c /= _poly(_F32_Q, square)
    values: Array = np.clip(c, np.float32(-1), np.float32(1))
    return values


def erf(x: Array, out: Array) -> Array:
    """The error function; float32 within 4 ulp, float64 within 1e-15 of the exact value."""
    return _blockwise(_erf, x, out)


def _gelu(x: Array) -> Array:
    # x Phi(x); the tail of Phi is taken as (1 + erf) / 2, as PyTorch does.
    y = _erf(x * x.dtype.type(np.sqrt(0.5)))
    y += x.dtype.type(1)
    y *= x
    y *= x.dtype.type(0.5)
    return y


def gelu(x: Array, out: Array) -> Array:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016)."""
    return _blockwise(_gelu, x, out)


def _gelu_tanh(x: Array) -> Array:
    c = x.dtype.type
    y = x * x
    y *= c(0.044715)
    y += c(1)
    y *= x
    y *= c(np.sqrt(2 / np.pi))
    y = np.asarray(np.tanh(y))
    y += c(1)
    y *= x
    y *= c(0.5)
    return y


def gelu_tanh(x: Array, out: Array) -> Array:
    """The tanh approximation of gelu (Hendrycks and Gimpel, 2016)."""
    return _blockwise(_gelu_tanh, x, out)


def sigmoid(x: Array, out: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow: exp is only taken of what is not positive."""
    if x.dtype.kind == "c":
        np.reciprocal(1 + np.exp(-x), out=out)
        return out
    e = np.exp(-np.abs(x))
    np.divide(np.where(x >= 0, x.dtype.type(1), e), 1 + e, out=out)
    return out


def silu(x: Array, out: Array) -> Array:
    """x * sigmoid(x) (Elfwing et al., 2017)."""
    copy = np.array(x)  # out may be x
    np.multiply(copy, sigmoid(copy, np.empty_like(copy)), out=out)
    return out


def rsqrt(x: Array, out: Array) -> Array:
    """1 / sqrt(x)."""
    np.divide(x.dtype.type(1), np.sqrt(x), out=out)
    return out


def sign(x: Array, out: Array) -> Array:
    """-1, 0 or 1; nan is neither above nor below zero and gives 0, as in torch."""
    out[...] = np.subtract(x > 0, x < 0, dtype=np.int8)
    return out


def whole(fn: Any) -> Any:
    """`fn`, which rounds, for floating dtypes; integers are whole already."""

    def apply(x: Array, out: Array) -> Array:
        if x.dtype.kind == "f":
            fn(x, out=out)
        else:
            np.copyto(out, x)
        return out

    return apply


def relu(x: Array, out: Array) -> Array:
    """max(x, 0); nan stays nan."""
    np.maximum(x, x.dtype.type(0), out=out)
    return out


def add_scaled(a: Array, b: Array, c: Array, out: Array) -> None:
    """a + b * c; `out` may be `a`."""
    np.add(a, b * c, out=out)


def clamp(x: Array, low: Array, high: Array, out: Array) -> Array:
    """x in [low, high]; nan where one is nan."""
    np.minimum(np.maximum(x, low, out=out), high, out=out)
    return out


def power(a: Array, b: Array, out: Array) -> Array:
    """a ** b; a negative power of an integer truncates towards zero, as in torch."""
    if a.dtype.kind in "iu":
        powers = np.power(a, np.maximum(b, 0))
        unit = np.where(np.abs(a) == 1, np.power(a, np.abs(b) % 2), 0)
        out[...] = np.where(b < 0, unit, powers)
        return out
    np.power(a, b, out=out)
    return out


def shifted_left(a: Array, b: Array, out: Array) -> Array:
    """a << b of integers; 0 where b is negative or at least the number of bits."""
    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    out[...] = np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(a.dtype)), 0)
    return out


def shifted_right(a: Array, b: Array, out: Array) -> Array:
    """a >> b of integers; where b is negative or at least the number of bits the sign is left."""
    last = 8 * a.dtype.itemsize - 1
    inside = (b >= 0) & (b <= last)
    rest = np.where(a < 0, -1, 0).astype(a.dtype)
    out[...] = np.where(inside, np.right_shift(a, np.where(inside, b, 0).astype(a.dtype)), rest)
    return out
