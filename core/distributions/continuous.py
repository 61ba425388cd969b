"""Distributions of one real number, drawn by a formula of uniform or normal numbers."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.distributions import constraints
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.functional import declared as f
from rushlight.core.ops.unary import erf
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "Cauchy",
    "Exponential",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Laplace",
    "Normal",
    "Uniform",
]

EULER = 0.5772156649015329


def uniform(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), both ends excluded."""
    return f.rand(shape, dtype=like.dtype, device=like.device) * (1 - 2.0**-23) + 2.0**-25


class _LocationScale(Distribution):
    """`loc` plus `scale` times a standard variable."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc


class Normal(_LocationScale):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    `validate_args`: whether arguments are checked. Raises ValueError for parameters outside their
    sets.
    """

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        shape, loc = self._shape(sample_shape), self.loc
        return f.randn(shape, dtype=loc.dtype, device=loc.device) * self.scale + loc

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        x = self._standard(value)
        return x.square() * -0.5 - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        return 0.5 * (1 + erf(self._standard(value) * math.sqrt(0.5)))

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return self.loc + self.scale * f.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_LocationScale):
    """Density exp(-|x - loc| / scale) / (2 scale).

    `validate_args`: whether arguments are checked. Raises ValueError for parameters outside their
    sets.
    """

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        u = 2 * uniform(self._shape(sample_shape), self.loc) - 1
        return self.loc - self.scale * u.sign() * f.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        return -f.log(2 * self.scale) - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        x = self._standard(value)
        return 0.5 - 0.5 * x.sign() * f.expm1(-x.abs())

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        x = value - 0.5
        return self.loc - self.scale * x.sign() * f.log1p(-2 * x.abs())

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 1 + f.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy distribution; it has neither mean nor variance.

    `loc` is the median, `scale` half the width at half the height. `validate_args`: whether
    arguments are checked. Raises ValueError for parameters outside their sets.
    """

    @property
    def mean(self) -> Tensor:
        """nan."""
        return f.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """nan."""
        return f.full_like(self.loc, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self.icdf(uniform(self._shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        return -math.log(math.pi) - self.scale.log() - f.log1p(self._standard(value).square())

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        return f.atan(self._standard(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return f.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The largest of many: cdf exp(-exp(-(x - loc) / scale)).

    `validate_args`: whether arguments are checked. Raises ValueError for parameters outside their
    sets.
    """

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (math.pi**2 / 6) * self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self.icdf(uniform(self._shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        x = -self._standard(value)
        return x - x.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        return f.exp(-f.exp(-self._standard(value)))

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return self.loc - self.scale * f.log(-f.log(value))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.scale.log() + 1 + EULER


class Uniform(Distribution):
    """Equally likely from `low`, included, to `high`.

    `validate_args`: whether arguments are checked. Raises ValueError where high is not above low.
    """

    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Number, high: Number, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        self._checked("high", self.high, constraints.greater_than(self.low.detach()))

    @property
    def support(self) -> Any:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """nan: no value is more likely than others."""
        return f.full_like(self.low, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        low = self.low
        u = f.rand(self._shape(sample_shape), dtype=low.dtype, device=low.device)
        return low + u * (self.high - low)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density; -inf outside."""
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return f.log(inside.to(self.low.dtype)) - f.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return f.log(self.high - self.low)


class Exponential(Distribution):
    """Density rate exp(-rate x) for x >= 0."""

    has_rsample = True
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return f.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate.square().reciprocal()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return -f.log(uniform(self._shape(sample_shape), self.rate)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        self._validate_sample(value)
        return 1 - f.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return -f.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 1 - self.rate.log()


class _Half(Distribution):
    """The absolute value of a symmetric distribution around zero, of a given scale."""

    has_rsample = True
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _whole: type[_LocationScale]

    def __init__(self, scale: Number, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def _base(self) -> _LocationScale:
        return self._whole(f.zeros_like(self.scale), self.scale, validate_args=False)

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return f.zeros_like(self.scale)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self._base.rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density; -inf below zero."""
        self._validate_sample(value)
        return f.where(value >= 0, self._base.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        self._validate_sample(value)
        return 2 * self._base.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return self._base.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self._base.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable of mean zero."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable around zero."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        """inf."""
        return f.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        """inf."""
        return self.mean
