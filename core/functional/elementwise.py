"""Elementwise functions made of others, and torch's second names of those there are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import float64
from rushlight.core.basis.limits import finfo
from rushlight.core.functional.clamping import clamp
from rushlight.core.ops.binary import div, ge, gt, le, lt, mul, ne, pow, sub, where
from rushlight.core.ops.common import Scalar, TensorLike, floating, operands
from rushlight.core.ops.declare import also, method, public, special
from rushlight.core.ops.unary import (
    abs,
    acos,
    asin,
    atan,
    erf,
    expm1,
    log1p,
    neg,
    round,
    sigmoid,
    trunc,
)  # fmt: skip

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

also("absolute")(abs)
also("negative")(neg)
also("arcsin")(asin)
also("arccos")(acos)
also("arctan")(atan)
also("fix")(trunc)
also("subtract")(sub)
also("multiply")(mul)
also("divide")(div)
also("greater")(gt)
also("greater_equal")(ge)
also("less")(lt)
also("less_equal")(le)
also("not_equal")(ne)
also("clip")(clamp)
special("expit")(sigmoid)
for _fn in (erf, expm1, log1p, round):
    special()(_fn)


@public
@method()
@special()
def exp2(x: Tensor) -> Tensor:
    """2 ** x."""
    return (floating("exp2", x) * math.log(2)).exp()


@public
@method()
@special()
def erfc(x: Tensor) -> Tensor:
    """1 - erf(x); far above zero this loses the digits that 1 swallows."""
    return 1 - floating("erfc", x).erf()


@also("arcsinh")
@public
@method()
def asinh(x: Tensor) -> Tensor:
    """Inverse hyperbolic sine: log(|x| + sqrt(x^2 + 1)) with the sign of x."""
    x = floating("asinh", x)
    size = x.abs()
    # log1p keeps small x exact; where the square would overflow, log(2 |x|) is exact enough.
    big = size > 1e4
    safe = size.masked_fill(big, 1)
    out = (safe + safe * safe / ((safe * safe + 1).sqrt() + 1)).log1p()
    far = size.masked_fill(big.logical_not(), 1).log() + math.log(2)
    return where(big, far, out) * where(x < 0, -1.0, 1.0).to(x.dtype)


@also("arccosh")
@public
@method()
def acosh(x: Tensor) -> Tensor:
    """Inverse hyperbolic cosine; nan below one."""
    x = floating("acosh", x)
    return (x + (x - 1).sqrt() * (x + 1).sqrt()).log()


@also("arctanh")
@public
@method()
def atanh(x: Tensor) -> Tensor:
    """Inverse hyperbolic tangent; nan outside [-1, 1]."""
    x = floating("atanh", x)
    return (x.log1p() - (-x).log1p()) * 0.5


@also("arctan2")
@public
@method()
def atan2(x: Tensor, other: Tensor) -> Tensor:
    """The angle of the point (other, x) from the positive axis of `other`, in (-pi, pi]."""
    y, x = floating("atan2", x), floating("atan2", other)
    steep = y.abs() > x.abs()
    zero = (y == 0).logical_and(x == 0)
    top, below = where(steep, x, y), where(steep, y, x)
    angle = (top / below.masked_fill(zero, 1)).atan()
    half = where(y < 0, -math.pi / 2, math.pi / 2).to(angle.dtype)
    turned = where(x < 0, half * 2, half * 0)
    return where(steep, half - angle, angle + turned)


@public
@method()
@special()
def sinc(x: Tensor) -> Tensor:
    """sin(pi x) / (pi x), one at zero."""
    x = floating("sinc", x)
    zero, turn = x == 0, x * math.pi
    return (turn.sin() / turn.masked_fill(zero, 1)).masked_fill(zero, 1)


@public
@method()
@special()
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; `eps` first limits x to [eps, 1 - eps]."""
    x = floating("logit", x)
    x = x if eps is None else clamp(x, eps, 1 - eps)
    return (x / (1 - x)).log()


@public
@method()
def hypot(x: Tensor, other: Tensor) -> Tensor:
    """sqrt(x^2 + other^2)."""
    return (x * x + other * other).sqrt()


def _product(x: Tensor, other: Tensor, log: Tensor) -> Tensor:
    """x * log, zero where x is zero and `other` a number."""
    zero = (x == 0).logical_and(other.isnan().logical_not())
    return (log.masked_fill(zero, 0) * x).masked_fill(zero, 0)


@public
@method()
@special()
def xlogy(x: TensorLike, other: TensorLike) -> Tensor:
    """x * log(other), zero where x is zero; one of them may be a number."""
    a, b = operands("xlogy", x, other)
    a, b = floating("xlogy", a), floating("xlogy", b)
    return _product(a, b, b.log())


@special()
def xlog1py(x: Tensor, other: Tensor) -> Tensor:
    """x * log(1 + other), zero where x is zero."""
    return _product(x, other, other.log1p())


@special()
def entr(x: Tensor) -> Tensor:
    """-x * log(x): zero at zero, -inf below."""
    return (-xlogy(x, x)).masked_fill(x < 0, -math.inf)


@special()
def ndtr(x: Tensor) -> Tensor:
    """The area under the standard normal density up to x."""
    return (floating("ndtr", x) * math.sqrt(0.5)).erf() * 0.5 + 0.5


@public
@method()
def deg2rad(x: Tensor) -> Tensor:
    """Degrees as radians."""
    return floating("deg2rad", x) * (math.pi / 180)


@public
@method()
def rad2deg(x: Tensor) -> Tensor:
    """Radians as degrees."""
    return floating("rad2deg", x) * (180 / math.pi)


@public
@method()
def frac(x: Tensor) -> Tensor:
    """x without its whole part; the sign of x."""
    return x - x.trunc()


@public
@method()
def positive(x: Tensor) -> Tensor:
    """`x` itself."""
    return x


@public
@method()
def sgn(x: Tensor) -> Tensor:
    """`sign` under the name that torch also gives it."""
    return x.sign()


@public
@method()
def signbit(x: Tensor) -> Tensor:
    """Where x is below zero, or minus zero."""
    below = x < 0
    return below.logical_or((x == 0).logical_and(x.reciprocal() < 0)
                            ) if x.dtype.is_floating_point else below  # fmt: skip


@public
@method()
def copysign(x: Tensor, other: TensorLike) -> Tensor:
    """The size of x with the sign of `other`, whose zeros have signs too."""
    size = floating("copysign", x).abs()
    if not isinstance(other, bool | int | float):
        return where(signbit(other), -size, size)
    return -size if math.copysign(1, other) < 0 else size


@public
@method()
def fmod(x: Tensor, other: TensorLike) -> Tensor:
    """The remainder of division toward zero; the sign of x."""
    return x - div(x, other, rounding_mode="trunc") * other


@public
@method()
def fmax(x: Tensor, other: Tensor) -> Tensor:
    """The larger one; a number where the other is nan."""
    return where(other.isnan(), x, where(x.isnan(), other, x.maximum(other)))


@public
@method()
def fmin(x: Tensor, other: Tensor) -> Tensor:
    """The smaller one; a number where the other is nan."""
    return where(other.isnan(), x, where(x.isnan(), other, x.minimum(other)))


@public
@method()
def logaddexp(x: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(other)) without overflow."""
    top = x.maximum(other)
    same = (x == other).logical_and(x.isinf())
    gap = -(x - other).masked_fill(same, 0).abs()
    return where(same, x, top + gap.exp().log1p())


@public
@method()
def logaddexp2(x: Tensor, other: Tensor) -> Tensor:
    """log2(2^x + 2^other) without overflow."""
    two = math.log(2)
    return logaddexp(x * two, other * two) / two


@public
@method()
def lerp(x: Tensor, end: Tensor, weight: TensorLike) -> Tensor:
    """x + weight * (end - x)."""
    return x + (end - x) * weight


@public
@method()
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """x + value * tensor1 * tensor2."""
    return x + tensor1 * tensor2 * value


@public
@method()
def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """x + value * tensor1 / tensor2."""
    return x + tensor1 / tensor2 * value


@public
@method()
def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """`x` with nan and infinities replaced, these by default by the dtype's limits."""
    if not x.dtype.is_floating_point:
        return x.clone()
    limits = finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    infinite = x.isinf()
    out = x.masked_fill(x.isnan(), nan).masked_fill(infinite.logical_and(x > 0), high)
    return out.masked_fill(infinite.logical_and(x < 0), low)


@public
@method()
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    """Zero below zero and for nan, one above zero, `values` at zero."""
    step = (x > 0).to(x.dtype)
    return where(x == 0, values, step)


@public
@method()
def true_divide(x: Tensor, other: TensorLike) -> Tensor:
    """`div` without rounding."""
    return div(x, other)


@public
@method()
def float_power(x: Tensor, exponent: TensorLike) -> Tensor:
    """x ** exponent in float64, which `webgpu` does not have."""
    if not isinstance(exponent, bool | int | float):
        exponent = exponent.to(float64)
    return pow(x.to(float64), exponent)


@public
@method()
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x * 2 ** other."""
    return x * exp2(floating("ldexp", other))


@public
@method()
def isposinf(x: Tensor) -> Tensor:
    """Where x is infinity."""
    return x.isinf().logical_and(x > 0)


@public
@method()
def isneginf(x: Tensor) -> Tensor:
    """Where x is minus infinity."""
    return x.isinf().logical_and(x < 0)


@public
@method()
def isclose(
    x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Where |x - other| <= atol + rtol * |other|, or both are equal."""
    near = (x - other).abs() <= other.abs() * rtol + atol
    near = near.logical_and(other.isinf().logical_not()).logical_or(x == other)
    return near.logical_or(x.isnan().logical_and(other.isnan())) if equal_nan else near


@public
@method()
def allclose(
    x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as `isclose` says; reads one value back."""
    return bool(isclose(x, other, rtol, atol, equal_nan).all().item())


@public
@method()
def equal(x: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and equal elements; reads one value back."""
    return x.shape == other.shape and bool((x == other).all().item())
