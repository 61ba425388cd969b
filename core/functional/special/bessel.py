"""Bessel functions of order 0 and 1, and Airy's function.

Up to |x| = 25 they are periodic integrals, for which the midpoint rule converges faster than any
power (Trefethen and Weideman, 2014); beyond it Hankel's expansions (DLMF 10.17, 10.40).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.functional.special.series import numbers_like, polynomial
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import method, public, special
from rushlight.core.ops.derived import derived
from rushlight.core.ops.unary import abs, cos, exp, isinf, log, sign, sin, sqrt

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_FAR = 25.0
_GAMMA = 0.57721566490153286
_POINTS = 32  # of a quarter turn
_ANGLES = [math.pi * (j + 0.5) / (2 * _POINTS) for j in range(_POINTS)]
# Weights of Neumann's series of Y (DLMF 10.8.2): the sum over k of (-1)^k / k cos(2 k angle).
_NEUMANN = [
    sum((-1) ** k / k * math.cos(2 * k * t) for k in range(1, 33)) / _POINTS for t in _ANGLES
]


def _hankel(order: int, count: int = 22) -> list[float]:
    """The coefficients a_k of Hankel's expansions (DLMF 10.17.1)."""
    result = [1.0]
    for k in range(1, count):
        result.append(result[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return result


def _split(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether |x| is far, and |x| for either formula."""
    a = abs(x)
    far = a > _FAR
    return far, where(far, 1.0, a), where(far, a, 2 * _FAR)


def _waves(x: Tensor, order: int, second: bool) -> Tensor:
    """J or Y of large x."""
    a, r = _hankel(order), 1 / (x * x)
    p = polynomial(r, [(-1) ** k * c for k, c in enumerate(a[::2])])
    q = polynomial(r, [(-1) ** k * c for k, c in enumerate(a[1::2])]) / x
    c, s = cos(x), sin(x)
    # cos and sin of x - (2 order + 1) pi / 4, times the root of 2
    near, turned = (c + s, s - c) if order == 0 else (s - c, -(c + s))
    wave = p * turned + q * near if second else p * near - q * turned
    return where(isinf(x), 0.0, wave / sqrt(x * math.pi))


def _j(x: Tensor, order: int) -> Tensor:
    far, near, large = _split(x)
    sines = numbers_like(x, [math.sin(t) for t in _ANGLES])
    turn = near.unsqueeze(-1) * sines
    result = (cos(turn) if order == 0 else sines * sin(turn)).mean(-1)
    result = where(far, _waves(large, order, False), result)
    return result * sign(x) if order else result


def _y(x: Tensor, order: int) -> Tensor:
    far, near, large = _split(x)
    sines, weights = (numbers_like(x, v) for v in ([math.sin(t) for t in _ANGLES], _NEUMANN))
    turn = near.unsqueeze(-1) * sines
    grown = (log(near / 2) + _GAMMA) * _j(near, order)
    if order == 0:
        value = (grown - 2 * (weights * cos(turn)).sum(-1)) * (2 / math.pi)
    else:
        rest = 2 * (weights * sines * sin(turn)).sum(-1)
        value = (grown - rest - _j(near, 0) / near) * (2 / math.pi)
    value = where(far, _waves(large, order, True), value)
    return where(x == 0, -math.inf, where(x < 0, math.nan, value))


def _i(x: Tensor, order: int) -> Tensor:
    """exp(-|x|) I(x)."""
    far, near, large = _split(x)
    cosines = [math.cos(t) for t in _ANGLES]
    total = near.zeros_like()
    for c in cosines:
        up, down = exp(near * (c - 1)), exp(near * (-c - 1))
        total = total + (up + down if order == 0 else (up - down) * c)
    total = total / (2 * _POINTS)
    series = polynomial(1 / large, [(-1) ** k * c for k, c in enumerate(_hankel(order))])
    result = where(far, series / sqrt(large * (2 * math.pi)), total)
    result = where(isinf(x), 0.0, result)
    return result * sign(x) if order else result


def _k(x: Tensor, order: int) -> Tensor:
    """exp(x) K(x)."""
    far, near, large = _split(x)
    small = near < 2
    z = where(small, near, 1.0)
    # Below 2 the series (DLMF 10.31.1, 10.31.2), above the integral of exp(-x cosh t) (10.32.9).
    r, term, harmonic, rest = z * z / 4, z.ones_like(), 0.0, z.zeros_like()
    for k in range(20):
        if order == 0:
            rest = rest + term * harmonic
        else:
            rest = rest - term * (2 * harmonic + 1 / (k + 1) - 2 * _GAMMA) * z / 4
        harmonic += 1 / (k + 1)
        term = term * r / ((k + 1) * (k + 1 + order))
    grown = (log(z / 2) + (0 if order else _GAMMA)) * _i(z, order) * exp(z)
    series = (rest - grown if order == 0 else 1 / z + grown + rest) * exp(z)
    z, step = where(small, 2.0, near), 0.125
    total = z * 0 + 0.5
    for n in range(1, 33):
        c = math.cosh(n * step)
        total = total + exp(-z * (c - 1)) * (c if order else 1)
    tail = polynomial(1 / large, _hankel(order)) * sqrt(math.pi / (2 * large))
    value = where(far, tail, where(small, series, total * step))
    value = where(isinf(x), 0.0, value)
    return where(x == 0, math.inf, where(x < 0, math.nan, value))


def _airy(x: Tensor) -> Tensor:
    right = x > 1
    middle = (x <= 1) & (x >= -9)
    # The integral along the steepest descent from the right, (DLMF 9.5.6) and its like.
    z = where(right, x, 1.0)
    root, width = sqrt(z), z**-0.25
    total = z * 0 + 0.5
    for n in range(1, 70):
        u = n * 0.09
        total = total + math.exp(-u * u) * cos(u**3 / 3 * width * width * width)
    value = total * 0.09 * width * exp(z * root * (-2 / 3)) / math.pi
    # Maclaurin's series, and the expansion of waves on the left (DLMF 9.4.1, 9.7.9).
    m = where(middle, x, 0.0)
    f, g = m.ones_like(), m
    even, odd = f, g
    for k in range(1, 45):
        f, g = f * (m * m * m) / ((3 * k - 1) * 3 * k), g * (m * m * m) / (3 * k * (3 * k + 1))
        even, odd = even + f, odd + g
    series = even * 0.35502805388781723926 - odd * 0.25881940379280679840
    y = where(x < -9, -x, 9.0)
    zeta = y * sqrt(y) * (2 / 3)
    terms = [1.0]
    for k in range(1, 24):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / ((2 * k - 1) * 216 * k))
    r = 1 / (zeta * zeta)
    p = polynomial(r, [(-1) ** k * c for k, c in enumerate(terms[::2])])
    q = polynomial(r, [(-1) ** k * c for k, c in enumerate(terms[1::2])]) / zeta
    turn = zeta - math.pi / 4
    waves = (cos(turn) * p + sin(turn) * q) / (math.sqrt(math.pi) * sqrt(sqrt(y)))
    value = where(right, value, where(middle, series, waves))
    return where(isinf(x), where(x > 0, 0.0, math.nan), where(x > 104, 0.0, value))


def _sphere(x: Tensor) -> Tensor:
    near = abs(x) < 0.5
    series = polynomial(x * x, [(-1) ** k / math.factorial(2 * k + 1) for k in range(9)])
    return where(near, series, where(isinf(x), 0.0, sin(x) / where(near, 1.0, x)))


@public
@method()
@special()
def i0(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return derived("i0", lambda x: _i(x, 0) * exp(abs(x)), (lambda x, out: i1(x),), x)


@special()
def i0e(x: Tensor) -> Tensor:
    """exp(-|x|) i0(x)."""
    return derived("i0e", lambda x: _i(x, 0), (lambda x, out: i1e(x) - sign(x) * out,), x)


def _over(value: Tensor, x: Tensor) -> Tensor:
    """value / x of an odd function of slope 1/2 at zero."""
    zero = x == 0
    return where(zero, 0.5, value / where(zero, 1.0, x))


@special()
def i1(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    slope = (lambda x, out: i0(x) - _over(out, x),)
    return derived("i1", lambda x: _i(x, 1) * exp(abs(x)), slope, x)


@special()
def i1e(x: Tensor) -> Tensor:
    """exp(-|x|) i1(x)."""
    slope = (lambda x, out: i0e(x) - sign(x) * out - _over(out, x),)
    return derived("i1e", lambda x: _i(x, 1), slope, x)


@special()
def bessel_j0(x: Tensor) -> Tensor:
    """The Bessel function of the first kind of order 0."""
    return derived("bessel_j0", lambda x: _j(x, 0), (lambda x, out: -bessel_j1(x),), x)


@special()
def bessel_j1(x: Tensor) -> Tensor:
    """The Bessel function of the first kind of order 1."""
    slope = (lambda x, out: bessel_j0(x) - _over(out, x),)
    return derived("bessel_j1", lambda x: _j(x, 1), slope, x)


@special()
def bessel_y0(x: Tensor) -> Tensor:
    """The Bessel function of the second kind of order 0; -inf at 0, nan below."""
    return derived("bessel_y0", lambda x: _y(x, 0), (lambda x, out: -bessel_y1(x),), x)


@special()
def bessel_y1(x: Tensor) -> Tensor:
    """The Bessel function of the second kind of order 1; -inf at 0, nan below."""
    return derived("bessel_y1", lambda x: _y(x, 1), (lambda x, out: bessel_y0(x) - out / x,), x)


@special()
def modified_bessel_i0(x: Tensor) -> Tensor:
    """`i0` under its other name."""
    return i0(x)


@special()
def modified_bessel_i1(x: Tensor) -> Tensor:
    """`i1` under its other name."""
    return i1(x)


@special()
def modified_bessel_k0(x: Tensor) -> Tensor:
    """The modified Bessel function of the second kind of order 0; inf at 0, nan below."""
    slope = (lambda x, out: -modified_bessel_k1(x),)
    return derived("modified_bessel_k0", lambda x: _k(x, 0) * exp(-x), slope, x)


@special()
def modified_bessel_k1(x: Tensor) -> Tensor:
    """The modified Bessel function of the second kind of order 1; inf at 0, nan below."""
    slope = (lambda x, out: -modified_bessel_k0(x) - out / x,)
    return derived("modified_bessel_k1", lambda x: _k(x, 1) * exp(-x), slope, x)


@special()
def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    """exp(x) modified_bessel_k0(x)."""
    slope = (lambda x, out: out - scaled_modified_bessel_k1(x),)
    return derived("scaled_modified_bessel_k0", lambda x: _k(x, 0), slope, x)


@special()
def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    """exp(x) modified_bessel_k1(x)."""
    slope = (lambda x, out: out - scaled_modified_bessel_k0(x) - out / x,)
    return derived("scaled_modified_bessel_k1", lambda x: _k(x, 1), slope, x)


@special()
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x, and 1 at 0."""
    return derived("spherical_bessel_j0", _sphere, (lambda x, out: (cos(x) - out) / x,), x)


@special()
def airy_ai(x: Tensor) -> Tensor:
    """Airy's function Ai; no gradient. On devices without float64 to 1e-3 in [-9, -4]."""
    return derived("airy_ai", _airy, (None,), x)
