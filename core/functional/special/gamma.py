"""The gamma function's logarithm, its derivatives, incomplete gamma functions, Hurwitz' zeta."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.functional.special.series import half_line, numbers_like, polynomial
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.declare import method, public, special
from rushlight.core.ops.derived import derived
from rushlight.core.ops.unary import abs, exp, floor, isinf, isnan, log, log1p, round, sin, tan

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_SHIFT = 8  # Stirling's series is exact to 1e-16 from here on
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)  # B2k / 2k
_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)  # B2k / (2k)!
_TERMS = 24


def _lgamma(x: Tensor) -> Tensor:
    left = x < 0.5
    z = where(left, 1 - x, x)
    near = z < _SHIFT
    base, product = where(near, z, 1.0), where(near, z, 1.0)
    for k in range(1, _SHIFT):
        product = product * (base + k)
    w = where(near, z + _SHIFT, z)
    value = (w - 0.5) * log(w) - w + 0.5 * math.log(2 * math.pi)
    value = value + polynomial(1 / (w * w), _STIRLING) / w - where(near, log(product), 0.0)
    turned = math.log(math.pi) - log(abs(sin((x - round(x)) * math.pi)))
    return where(isinf(x), math.inf, where(left, turned - value, value))


def _digamma(x: Tensor) -> Tensor:
    left = x < 0.5
    z = where(left, 1 - x, x)
    near = z < _SHIFT
    rest = where(near, 1 / z, 0.0)
    for k in range(1, _SHIFT):
        rest = rest + where(near, 1 / (z + k), 0.0)
    w = where(near, z + _SHIFT, z)
    r = 1 / (w * w)
    value = log(w) - 0.5 / w - r * polynomial(r, _BERNOULLI) - rest
    fraction = x - round(x)
    value = where(left, value - math.pi / tan(fraction * math.pi), value)
    return where((fraction == 0) & (x < 0), math.nan, value)


def _zeta(s: Tensor, q: Tensor) -> Tensor:
    points = q.unsqueeze(-1) + numbers_like(q, range(_TERMS))
    value = (points ** -s.unsqueeze(-1)).sum(-1)  # Euler and Maclaurin's sum of the rest follows
    w = q + _TERMS
    end = w**-s
    value = value + end * (w / (s - 1) + 0.5)
    factor = s / w
    for k, c in enumerate(_MACLAURIN):
        value = value + factor * end * c
        factor = factor * (s + (2 * k + 1)) * (s + (2 * k + 2)) / (w * w)
    value = where(isinf(q) & (q > 0), 0.0, where(isinf(s), where(q == 1, 1.0, 0.0 * q), value))
    pole = (q <= 0) & (q == floor(q))
    wrong = ((q <= 0) & (s != floor(s))) | isnan(s) | isnan(q) | (w <= 1)
    value = where(s < 1, math.nan, where(pole, math.inf, where(wrong, math.nan, value)))
    return where(s == 1, math.inf, value)


@public
@method()
@special("gammaln")
def lgamma(x: Tensor) -> Tensor:
    """log |gamma(x)|, by Stirling's series; inf at 0 and the negative integers."""
    return derived("lgamma", _lgamma, (lambda x, out: digamma(x),), x)


@public
@method()
@special("digamma", "psi")
def digamma(x: Tensor) -> Tensor:
    """The derivative of `lgamma`; -inf at 0, nan at the negative integers."""
    return derived("digamma", _digamma, (lambda x, out: polygamma(1, x),), x)


@special("zeta")
def zeta(x: TensorLike, other: TensorLike) -> Tensor:
    """Hurwitz' zeta function, the sum of (k + other) ** -x over k = 0, 1, ...; gradient to other.

    nan for x < 1, and for other <= -23; inf at x = 1 and where a term is 1 / 0.
    """
    return derived("zeta", _zeta, (None, lambda x, q, out: -x * zeta(x + 1, q)), x, other)


def _trigamma(x: Tensor) -> Tensor:
    left = x < 0.5
    value = _zeta(x.ones_like() * 2, where(left, 1 - x, x))
    return where(left, (math.pi / sin((x - round(x)) * math.pi)).square() - value, value)


@public
@method()
@special()
def polygamma(n: Any, x: Any) -> Tensor:
    """The n-th derivative of `digamma` at the tensor x; the tensor may come first."""
    if is_tensor(n):
        n, x = x, n
    if n < 0:
        raise ValueError(f"polygamma: n is {n}; it must not be negative")
    if n == 0:
        return digamma(x)
    # n! in float64, which holds it up to 170.
    factor = math.inf if n > 170 else float(math.factorial(n))

    def value(x: Tensor) -> Tensor:
        if n == 1:
            return _trigamma(x)
        derivative: Tensor = _zeta(x.ones_like() * float(n + 1), x)
        return derivative * (factor if n % 2 else -factor)

    return derived("polygamma", value, (lambda x, out: polygamma(n + 1, x),), x)


_MOST_DIMS = 1 << 16  # each is a step


@public
@method()
@special("multigammaln")
def mvlgamma(x: Tensor, p: int) -> Tensor:
    """The log of the multivariate gamma function of dimension p >= 1; x > (p - 1) / 2."""
    if not 1 <= p <= _MOST_DIMS:
        raise ValueError(f"mvlgamma: p is {p}; it must be from 1 to {_MOST_DIMS}")
    result = lgamma(x) + p * (p - 1) / 4 * math.log(math.pi)
    for i in range(1, p):
        result = result + lgamma(x - i / 2)
    return result


def _incomplete(a: Tensor, x: Tensor, upper: bool) -> Tensor:
    # Both parts are integrals of exp(-w) times a smooth factor from 0 to infinity: the lower one
    # after t = x exp(-w / a), the upper one after t = x + w.
    rule = half_line()
    w, weight = (numbers_like(a, [row[i] for row in rule]) for i in (0, 1))
    low = x < a + 1
    b, y = where(low, a, 1.0).unsqueeze(-1), where(low, x, 0.0).unsqueeze(-1)
    lower = (exp(y * (1 - exp(-w / b)) - w) * weight).sum(-1) / a
    b, y = where(low, 1.0, a).unsqueeze(-1), where(low, 1.0, x).unsqueeze(-1)
    rest = (exp((b - 1) * log1p(w / y) - w) * weight).sum(-1) / x
    scale = exp(a * log(x) - x - _lgamma(a))
    value = where(
        low == upper, 1 - scale * where(low, lower, rest), scale * where(low, lower, rest)
    )
    none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
    value = where((x == 0) | isinf(a), none, where((a == 0) | isinf(x), all_, value))
    wrong = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (isinf(a) & isinf(x))
    return where(wrong | isnan(a) | isnan(x), math.nan, value)


def _density(a: Tensor, x: Tensor, out: Tensor) -> Tensor:
    return exp((a - 1) * log(x) - x - lgamma(a))


@public
@method()
@special("gammainc")
def igamma(x: TensorLike, other: TensorLike) -> Tensor:
    """The regularized lower incomplete gamma function P(x, other); gradient to `other` alone."""
    return derived("igamma", lambda a, x: _incomplete(a, x, False), (None, _density), x, other)


@public
@method()
@special("gammaincc")
def igammac(x: TensorLike, other: TensorLike) -> Tensor:
    """The regularized upper incomplete gamma function Q(x, other); gradient to `other` alone."""
    slopes = (None, lambda a, x, out: -_density(a, x, out))
    return derived("igammac", lambda a, x: _incomplete(a, x, True), slopes, x, other)
