"""The error function's kin: complementary, scaled and inverse, and the normal distribution's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import floating
from rushlight.core.ops.declare import method, public, special
from rushlight.core.ops.derived import derived
from rushlight.core.ops.unary import abs, erf, exp, isinf, log, log1p, sign, sqrt

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_ROOT_PI = math.sqrt(math.pi)
_STEP = 0.5  # the midpoint rule's error is exp(-(pi / step)^2)


def _erfcx(x: Tensor) -> Tensor:
    # The midpoint rule for the integral of exp(-t^2) / (x^2 + t^2), and the pole's part.
    a = abs(x)
    far = a > math.pi / _STEP
    total = a.zeros_like()
    for n in range(14):
        t = (n + 0.5) * _STEP
        total = total + math.exp(-t * t) / (a * a + t * t)
    value = where(isinf(a), 0.0, total * a) * (2 * _STEP / math.pi)
    near = where(far, 0.0, a)
    pole = 2 / (exp(near * (2 * math.pi / _STEP) - near * near) + exp(-near * near))
    value = value + where(far, 0.0, pole)
    return where(x < 0, 2 * exp(x * x) - value, value)


def _erfc(x: Tensor) -> Tensor:
    return where(x > 0.5, exp(-x * x) * _erfcx(where(x > 0.5, x, 1.0)), 1 - erf(x))


@public
@method()
@special()
def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), exact far above zero too."""
    return derived("erfc", _erfc, (lambda x, out: exp(-x * x) * (-2 / _ROOT_PI),), x)


@special()
def erfcx(x: Tensor) -> Tensor:
    """exp(x^2) erfc(x), without overflow for large x."""
    return derived("erfcx", _erfcx, (lambda x, out: 2 * x * out - 2 / _ROOT_PI,), x)


def _inverse(a: Tensor, q: Tensor) -> Tensor:
    """y >= 0 with erf(y) = a and erfc(y) = q, whichever is small: Winitzki's, then Halley's."""
    line = log(q) + log1p(a)
    t = 2 / (math.pi * 0.147) + line / 2
    y = sqrt(sqrt(t * t - line / 0.147) - t)
    for _ in range(3):
        error = where(a < 0.5, erf(y) - a, q - _erfc(y))
        u = error * exp(y * y) * (_ROOT_PI / 2)
        y = y - where(error == 0, 0.0, u / (1 + u * y))
    return where(q == 0, math.inf, where(a == 0, 0.0, y))


@public
@method()
@special()
@casts(accelerator="float32")
def erfinv(x: Tensor) -> Tensor:
    """The inverse of `erf`: inf at 1, nan beyond."""
    return derived(
        "erfinv",
        lambda x: sign(x) * _inverse(abs(x), 1 - abs(x)),
        (lambda x, out: exp(out * out) * (_ROOT_PI / 2),),
        x,
    )


def _ndtri(p: Tensor) -> Tensor:
    low = p < 0.5
    q = 2 * where(low, p, 1 - p)
    y = _inverse(1 - q, q) * math.sqrt(2)
    return where(low, -y, y)


@special()
def ndtri(x: Tensor) -> Tensor:
    """The inverse of `ndtr`: -inf at 0, inf at 1, nan beyond."""
    slope = math.sqrt(2 * math.pi)
    return derived("ndtri", _ndtri, (lambda x, out: exp(out * out / 2) * slope,), x)


@special()
def ndtr(x: Tensor) -> Tensor:
    """The area under the standard normal density up to x."""
    return erfc(floating("ndtr", x) * -math.sqrt(0.5)) * 0.5


def _log_ndtr(x: Tensor) -> Tensor:
    y = x * math.sqrt(0.5)
    low = x < -1
    tail = log(_erfcx(where(low, -y, 0.0)) / 2) - y * y
    return where(low, tail, log1p(-_erfc(where(low, 0.0, y)) / 2))


def _log_ndtr_slope(x: Tensor, out: Tensor) -> Tensor:
    return math.sqrt(2 / math.pi) / erfcx(x * -math.sqrt(0.5))


@special()
def log_ndtr(x: Tensor) -> Tensor:
    """log(ndtr(x)), exact far below zero too."""
    return derived("log_ndtr", _log_ndtr, (_log_ndtr_slope,), x)
