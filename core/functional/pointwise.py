"""Elementwise functions of one and more tensors, under torch's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.dtype import float64, int32, promote_types
from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.basis.limits import finfo
from rushlight.core.functional.complex import complex
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import (
    CLAMP,
    add,
    floor_divide,
    maximum,
    minimum,
    mul,
    pow,
    remainder,
    where,
)
from rushlight.core.ops.common import (
    TensorLike,
    floating,
    is_tensor,
    numbers,
    operands,
    promoted,
    repeated,
)
from rushlight.core.ops.creation import full
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.reduce import widened
from rushlight.core.ops.unary import (
    abs,
    asin,
    atan,
    direction,
    exp,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    sign,
    sin,
    trunc,
    turned,
)
from rushlight.core.tensor.autograd import needs_gradient
from rushlight.core.tensor.op import REGISTRY, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def gcd(x: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of integers, by Euclid's steps; not negative."""
    a, b = (abs(v) for v in operands("gcd", x, other))
    if a.dtype.is_floating_point or a.dtype.name == "bool":
        raise TypeMismatch(f"gcd: {a.dtype.name} is not an integer dtype")
    # Each two steps halve the smaller number, so 1.45 steps per bit suffice.
    for _ in range(math.ceil(1.45 * 8 * a.dtype.itemsize) + 1):
        done = b == 0
        a, b = where(done, a, b), where(done, b, remainder(a, where(done, 1, b)))
    return a


@public
@method()
def lcm(x: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of integers; 0 where one is 0."""
    a, b = operands("lcm", x, other)
    divisor = gcd(a, b)
    return abs(floor_divide(a, where(divisor == 0, 1, divisor)) * b)


@public
@method()
def exp2(x: Tensor) -> Tensor:
    """2 ** x; integers become float32."""
    return exp(floating("exp2", x) * math.log(2))


@public
@method()
def deg2rad(x: Tensor) -> Tensor:
    """Degrees as radians; integers become float32."""
    return floating("deg2rad", x) * (math.pi / 180)


@public
@method()
def rad2deg(x: Tensor) -> Tensor:
    """Radians as degrees; integers become float32."""
    return floating("rad2deg", x) * (180 / math.pi)


@public
@method("positive", "__pos__")
def positive(x: Tensor) -> Tensor:
    """The tensor itself; TypeError for booleans."""
    if x.dtype.name == "bool":
        raise TypeMismatch("positive: bool is not supported")
    return x


@public
@method()
def frac(x: Tensor) -> Tensor:
    """x - trunc(x); floating dtypes."""
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"frac: {x.dtype.name} is not a floating dtype")
    return x - trunc(x).detach()


@public
@method()
def asinh(x: Tensor) -> Tensor:
    """Inverse hyperbolic sine: sign(x) log(|x| + sqrt(x^2 + 1)), without cancellation."""
    x = floating("asinh", x)
    if x.dtype.is_complex:  # i asin(x / i)
        y = asin(complex(x.imag, -x.real))
        return complex(-y.imag, y.real)
    a = abs(x)
    # log1p(a + a^2 / (1 + sqrt(a^2 + 1))) keeps small x; large x would overflow in the square.
    large = a > 1e4
    b = a.masked_fill(large, 1.0)
    small = log1p(b + b.square() / (1 + (b.square() + 1).sqrt()))
    size = where(large, log(a.masked_fill(~large, 1.0)) + math.log(2), small)
    return where(x < 0, -size, where(x == 0, x, size))


@public
@method()
def acosh(x: Tensor) -> Tensor:
    """Inverse hyperbolic cosine: log(x + sqrt(x^2 - 1)); nan below 1."""
    x = floating("acosh", x)
    if x.dtype.is_complex:  # Kahan (1987), "Branch cuts for complex elementary functions"
        p, q = (complex(x.real + n, x.imag).sqrt() for n in (-1, 1))
        return complex(asinh((turned(p) * q).real), 2 * atan2(p.imag, q.real))
    large = x > 1e4
    y = x.masked_fill(large, 2.0) - 1
    small = log1p(y + (y * (y + 2)).sqrt())
    return where(large, log(x.masked_fill(~large, 1.0)) + math.log(2), small)


@public
@method()
def atanh(x: Tensor) -> Tensor:
    """Inverse hyperbolic tangent: (log1p(x) - log1p(-x)) / 2; nan beyond 1."""
    x = floating("atanh", x)
    return (log1p(x) - log1p(-x)) / 2


@public
@method()
@casts(accelerator="widest")
def atan2(x: TensorLike, other: TensorLike) -> Tensor:
    """The angle of the point (other, x), in (-pi, pi]; zeros keep their signs as in C."""
    y, x_ = (floating("atan2", v) for v in operands("atan2", x, other))
    steep = abs(y) > abs(x_)
    both = (y == 0) & (x_ == 0)
    infinite = isinf(y) & isinf(x_)
    over = where(steep, y, x_).masked_fill(both, 1.0)
    ratio = where(steep, x_, y) / over
    ratio = where(infinite, sign(x_) * sign(y), ratio)
    base = atan(ratio)
    half = where(signbit(y), -1.0, 1.0).to(y.dtype) * math.pi
    flat = where(signbit(x_), base + half, base)
    zero = where(signbit(x_), half + 0 * base, ratio * 0 + y)
    angle = where(steep, half / 2 - base, flat)
    # At the origin there is no direction: both gradients are 0, as in torch.
    return where(both, zero.detach(), angle).to(y.dtype)


@public
@method()
def signbit(x: Tensor) -> Tensor:
    """Whether the sign is set, of -0.0 too; bool."""
    if not x.dtype.is_floating_point:
        return x < 0
    return (x < 0) | ((x == 0) & (x.detach().reciprocal() < 0))


@public
@method()
def copysign(x: TensorLike, other: TensorLike) -> Tensor:
    """|x| with the sign of `other`; at 0 there is no gradient."""
    a, b = (floating("copysign", v) for v in operands("copysign", x, other))
    result = where(signbit(b) ^ signbit(a), -a, a)
    return where(a == 0, result.detach(), result) if needs_gradient(a) else result


@public
@method()
def hypot(x: TensorLike, other: TensorLike) -> Tensor:
    """sqrt(x^2 + other^2) without overflow."""
    a, b = (abs(floating("hypot", v)) for v in operands("hypot", x, other))
    infinite = isinf(a) | isinf(b)
    if needs_gradient(a, b):  # no gradient of inf / inf
        a, b = a.masked_fill(infinite, 1.0), b.masked_fill(infinite, 1.0)
    most, least = maximum(a, b), minimum(a, b)
    scale = where((most == 0) | isinf(most), 1.0, most.detach())
    length = scale * ((most / scale).square() + (least / scale).square()).sqrt()
    return where(infinite, math.inf, length).to(a.dtype)


@public
@method()
def fmod(x: TensorLike, other: TensorLike) -> Tensor:
    """The rest of x / other rounded to zero, with the sign of x."""
    a, b = operands("fmod", x, other)
    if a.dtype.kind == "f":
        # Of sizes alone: the rest of a small negative number is near b, which would round it.
        sign = where(a < 0, -1.0, 1.0).to(a.dtype)
        rest = sign * remainder(sign * a, abs(b))
        return where((a == 0) & (rest == 0), a, rest)  # zero has a sign, too
    rest = remainder(a, b)
    wrong = (rest != 0) & ((a < 0) ^ (b < 0))
    return where(wrong, rest - b, rest)


@public
@method()
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    """0 where x < 0, 1 where x > 0, `values` where x is 0."""
    a, b = operands("heaviside", x, values)
    return where(a == 0, b, (a > 0).to(a.dtype))


@public
@method()
def logaddexp(x: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(other)) without overflow."""
    a, b = (floating("logaddexp", v) for v in operands("logaddexp", x, other))
    if a.dtype.is_complex:
        first = a.real >= b.real
        most, least = where(first, a, b), where(first, b, a)
        same = (a.real == b.real) & isinf(a.real)
        return where(same, a, most + log1p(exp(where(same, 0.0, least - most))))
    most = maximum(a, b)
    same = (a == b) & isinf(a)
    return where(same, a, most + log1p(exp(-abs(where(same, 0.0, a - b)))))


@public
@method()
def logaddexp2(x: Tensor, other: Tensor) -> Tensor:
    """log2(2 ** x + 2 ** other) without overflow."""
    ln2 = math.log(2)
    return logaddexp(floating("logaddexp2", x) * ln2, floating("logaddexp2", other) * ln2) / ln2


@public
@method()
def xlogy(x: TensorLike, other: TensorLike) -> Tensor:
    """x log(other), and 0 where x is 0 and other is not nan."""
    a, b = (floating("xlogy", v) for v in operands("xlogy", x, other))
    zero = (a == 0) & ~isnan(b)
    if needs_gradient(a) and not b.dtype.is_complex:
        zero = zero & ~((b > 0) & (b < math.inf))  # there x log(other) has its gradient log(other)
    return where(zero, 0.0, a * log(where(zero, 1.0, b))).to(a.dtype)


@public
@method()
def sinc(x: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = floating("sinc", x)
    zero = x == 0
    # pi * x is exact enough as (x mod 2) * pi: large x keep their phase.
    turned = sin((x if x.dtype.is_complex else remainder(x, 2)) * math.pi)
    square = 1 - (x * math.pi).square() / 6  # the gradient at 0
    return where(zero, square, turned / where(zero, 1.0, x * math.pi)).to(x.dtype)


@public
@method()
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); `eps` limits x to [eps, 1 - eps], whose ends have gradients."""
    x = floating("logit", x)
    if eps is not None:  # the lower bound is asked first, also where they cross
        x = where(x < eps, eps, where(x > 1 - eps, 1 - eps, x))
    elif not x.dtype.is_complex and needs_gradient(x):  # nan, and its gradient too, outside of it
        x = x * where((x < 0) | (x > 1), math.nan, 1.0).to(x.dtype)
    return log(x / (1 - x))


@public
@method()
def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """nan, inf and -inf replaced; by default 0 and the ends of the dtype's range.

    `x` of another dtype than floating is copied; `nan`, `posinf` and `neginf` are numbers. It
    raises nothing of its own.
    """
    if not x.dtype.is_floating_point:
        return x.clone()
    most = finfo(x.dtype).max
    x = where(isnan(x), nan, x).to(x.dtype)
    x = where(x == math.inf, most if posinf is None else posinf, x).to(x.dtype)
    return where(x == -math.inf, -most if neginf is None else neginf, x).to(x.dtype)


@public
@method()
def lerp(x: Tensor, end: Tensor, weight: TensorLike) -> Tensor:
    """x + weight (end - x).

    `weight` is a number or a tensor. Raises ShapeError for shapes that do not broadcast.
    """
    return x + (end - x) * weight


@public
@method()
@casts(accelerator="widest")
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """x + value * tensor1 * tensor2.

    Raises ShapeError for shapes that do not broadcast.
    """
    return x + (tensor1 * tensor2 if value == 1 else tensor1 * tensor2 * value)


@public
@method()
@casts(accelerator="widest")
def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """x + value * tensor1 / tensor2; floating and complex dtypes.

    Raises ShapeError for shapes that do not broadcast. TypeError for integers.
    """
    if tensor1.dtype.kind not in "fc" and tensor2.dtype.kind not in "fc":
        raise TypeMismatch("addcdiv: integers are not divided; convert them to a floating dtype")
    return x + (tensor1 / tensor2 if value == 1 else tensor1 / tensor2 * value)


@public
@method("rsub")
def rsub(x: Tensor, other: TensorLike, *, alpha: float = 1) -> Tensor:
    """other - alpha * x.

    `alpha` is a number. Raises ShapeError for shapes that do not broadcast.
    """
    return add(other, mul(x, -alpha))


@public
@method()
def float_power(x: TensorLike, exponent: TensorLike) -> Tensor:
    """x ** exponent in float64 or complex128; webgpu, which has none of them, refuses."""
    dtype = promote_types(promoted(x, exponent), float64)
    return pow(*(v.to(dtype) if is_tensor(v) else v for v in (x, exponent)))  # type: ignore[union-attr]


@method()
def float_power_(x: Tensor, exponent: TensorLike) -> Tensor:
    """`float_power` in place; TypeError unless x is of the dtype that it gives."""
    power = float_power(x, exponent)
    if power.dtype is not x.dtype:
        raise TypeMismatch(
            f"float_power_: the result, {power.dtype.name}, does not fit in place "
            f"into {x.dtype.name}"
        )
    return copy_(x, power)


@public
@method()
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x * 2 ** other; integers become float32."""
    return floating("ldexp", x) * pow(2.0, other)


@public
@method()
def clamp_min(x: Tensor, min: TensorLike) -> Tensor:
    """`clamp` with a lower bound alone."""
    return clamp(x, min)


@public
@method()
def clamp_max(x: Tensor, max: TensorLike) -> Tensor:
    """`clamp` with an upper bound alone."""
    return clamp(x, None, max)


@public
@method()
def sgn(x: Tensor) -> Tensor:
    """The sign of real numbers, x / |x| of complex ones, 0 of 0."""
    return direction(x)


class Frexp(NamedTuple):
    """x = mantissa * 2 ** exponent, with the mantissa in [0.5, 1)."""

    mantissa: Tensor
    exponent: Tensor


def _power(exponent: Tensor) -> Tensor:
    """2 ** exponent as two factors, neither of which overflows."""
    half = floor(exponent / 2)
    return mul(2.0**half, 2.0 ** (exponent - half))


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    a = abs(x.detach())
    odd = (a == 0) | ~isfinite(a)
    e = floor(log2(where(odd, 1.0, a).to(x.dtype))) + 1
    half = floor(e / 2)
    scale = (2.0**-half, 2.0 ** (half - e))
    share = where(odd, 0.5, a * scale[0] * scale[1])  # the logarithm may be off by one
    e = where(odd, 0.0, e + (share >= 1).to(x.dtype) - (share < 0.5).to(x.dtype))
    return odd, e.to(x.dtype)


@public
@method()
def frexp(x: Tensor) -> Frexp:
    """(mantissa, exponent), the exponent int32; 0, inf and nan are mantissas with exponent 0."""
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"frexp: {x.dtype.name} is not a floating dtype")
    wide = widened(x)
    _, e = _parts(wide)
    half = floor(e / 2)
    return Frexp((wide * 2.0**-half * 2.0 ** (half - e)).to(x.dtype), e.to(int32))


@public
@method()
def nextafter(x: Tensor, other: Tensor) -> Tensor:
    """The next number of the dtype from x towards `other`; float32 and float64."""
    a, b = operands("nextafter", x, other)
    if a.dtype.name not in ("float32", "float64"):
        raise TypeMismatch(
            f"nextafter: {a.dtype.name} is not supported; supported: float32, float64"
        )
    info = finfo(a.dtype)
    digits = 53 if a.dtype.itemsize == 8 else 24
    low = math.frexp(info.tiny)[1]
    odd, e = _parts(a)
    away = (b > a) == (a > 0)
    power = abs(a) == 0.5 * _power(e)  # below a power of two the steps are half as long
    e = e - ((power & ~away) & (e > low)).to(a.dtype)
    e = where(e < low, low, e)
    half = floor((e - digits) / 2)
    # Its factors are exact, also where the step is the smallest number of all.
    step = (2.0**half) * 2.0 ** (e - digits - half)
    least = full((), info.tiny, dtype=a.dtype, device=a.device) * 2.0 ** (1 - digits)
    moved = where(b > a, a + step, a - step)
    moved = where(a == 0, where(b > 0, least, -least), moved)
    most = full((), info.max, dtype=a.dtype, device=a.device)
    edge = where(a > 0, most, -most)
    moved = where(odd & (a != 0), where(a == b, a, edge), moved)
    following = where(a == b, b, moved)
    return where(isnan(a) | isnan(b), math.nan, following).to(a.dtype)


def _call(x: Tensor, min: Any, max: Any) -> tuple[Op, list[Tensor]]:
    """The op of a clamp, and its operands."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    # A bound that is not given lets everything through.
    ends = (-math.inf if min is None else min, math.inf if max is None else max)
    a, b = map(type, ends)
    if x.dtype.kind == "f" and (a is float or a is int) and (b is float or b is int):  # most calls
        like = x.dtype, x.storage.device, x.layout.shape
        return CLAMP, [x, repeated(ends[0], *like), repeated(ends[1], *like)]
    values = numbers("clamp", tuple(v for v in (x, min, max) if v is not None))
    inputs = operands("clamp", *values)
    if len(inputs) == 3:
        return CLAMP, inputs
    if inputs[0].dtype.kind != "f":  # of integers a device need not hold the ends
        return REGISTRY["maximum" if max is None else "minimum"], inputs
    place = 1 if min is None else 2
    inputs.insert(place, inputs[0].new_full((), ends[place - 1]).expand(*inputs[0].shape))
    return CLAMP, inputs


@public
@method()
def clamp(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to [min, max]; where min > max the result is max. One may be None.

    At a bound that is a number no gradient goes to x; x and an equal bound that is a tensor get
    half of it each, as in torch 2.14.

    Raises ShapeError for bounds that do not broadcast, ValueError for none, TypeError for complex
    numbers.
    """
    op, inputs = _call(x, min, max)
    tensors = [v for v in (min, max) if is_tensor(v)]
    if op is CLAMP and tensors and needs_gradient(x, *tensors):  # type: ignore[arg-type]
        result: Tensor = inputs[0] if min is None else REGISTRY["maximum"](inputs[0], inputs[1])
        return result if max is None else REGISTRY["minimum"](result, inputs[2])
    return op(*inputs)


@public
@method()
def clamp_(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Limit the elements of `x` to [min, max], in place.

    `min` and `max` as there, at least one; a result of another shape raises ShapeError.
    """
    op, inputs = _call(x, min, max)
    tensors = [v for v in (min, max) if is_tensor(v)]
    halves = tensors and needs_gradient(x, *tensors)  # type: ignore[arg-type]
    if halves or inputs[0].dtype is not x.dtype or inputs[0].shape != x.shape:
        return copy_(x, clamp(x.clone() if needs_gradient(x) else x, min, max))
    return op.inplace(x, *inputs[1:])
