"""Distributions of lifetimes, of numbers in an interval, and of angles."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.distributions import constraints
from rushlight.core.distributions.composed import TransformedDistribution
from rushlight.core.distributions.continuous import EULER, Exponential, Uniform, uniform
from rushlight.core.distributions.discrete import ByProbs, clamp_probs
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.distributions.transforms import AffineTransform, PowerTransform
from rushlight.core.functional import declared as f
from rushlight.core.functional.special.bessel import i0e, i1e
from rushlight.core.nn import functional as nn
from rushlight.core.tensor.tensor import Tensor

__all__ = ["ContinuousBernoulli", "GeneralizedPareto", "Kumaraswamy", "VonMises", "Weibull"]


class Weibull(TransformedDistribution):
    """`scale` times an exponential variable to the power of 1 / `concentration`.

    validate_args: whether parameters and values are checked; ValueError for a wrong one.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(
        self, scale: Number, concentration: Number, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(f.ones_like(self.scale), validate_args)
        steps = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.scale * f.lgamma(1 + self.concentration_reciprocal).exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value; nan for a concentration below 1."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        """The variance."""
        r = self.concentration_reciprocal
        return self.scale.square() * (f.lgamma(1 + 2 * r).exp() - (2 * f.lgamma(1 + r)).exp())

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        r = self.concentration_reciprocal
        return EULER * (1 - r) + (self.scale * r).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Density a b x^(a - 1) (1 - x^a)^(b - 1) on [0, 1]: a is concentration1, b concentration0.

    validate_args: whether parameters and values are checked; ValueError for a wrong one.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(
        self, concentration1: Number, concentration0: Number, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = f.zeros_like(self.concentration0)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(zeros, zeros + 1, validate_args), steps, validate_args)

    def _moment(self, n: int) -> Tensor:
        b, power = self.concentration0, 1 + n / self.concentration1
        return b * (f.lgamma(power) + f.lgamma(b) - f.lgamma(power + b)).exp()

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The most likely value; nan where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        log = f.log1p(-b) / b - f.log1p(-a * b)
        return f.where((a < 1) | (b < 1), math.nan, log.exp())

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a, b = self.concentration1, self.concentration0
        harmonic = f.digamma(b + 1) + EULER
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class GeneralizedPareto(Distribution):
    """Excesses over `loc`: the tail (1 + concentration z)^(-1 / concentration), z in `scale`.

    validate_args: whether parameters and values are checked; ValueError for a wrong one.
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }

    def __init__(
        self, loc: Number, scale: Number, concentration: Number, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """From `loc` on; to an end where the concentration is negative."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, f.where(self.concentration < 0, end, math.inf))

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where the tail is exponential, and the concentration without zeros."""
        flat = self.concentration.abs() <= 1e-8
        return flat, f.where(flat, 1.0, self.concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self.icdf(uniform(self._shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        z, (flat, k) = (value - self.loc) / self.scale, self._split()
        return -self.scale.log() - f.where(flat, z, (1 / k + 1) * f.log1p(k * z))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The log of the probability of more than `value`."""
        self._validate_sample(value)
        z, (flat, k) = (value - self.loc) / self.scale, self._split()
        return f.where(flat, -z, -f.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The log of the probability of at most `value`."""
        return f.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        log, (flat, k) = f.log1p(-value), self._split()
        return self.loc + self.scale * f.where(flat, -log, f.expm1(-k * log) / k)

    @property
    def mean(self) -> Tensor:
        """The expected value; nan for a concentration of at least 1."""
        k = self.concentration
        mean = self.loc + self.scale / (1 - f.where(k < 1, k, 0.5))
        return f.where(k < 1, mean, math.nan)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; nan for a concentration of at least 1/2."""
        k = f.where(self.concentration < 0.5, self.concentration, 0.25)
        variance = self.scale.square() / ((1 - k).square() * (1 - 2 * k))
        return f.where(self.concentration < 0.5, variance, math.nan)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.scale.log() + self.concentration + 1


class ContinuousBernoulli(ByProbs):
    """Density in proportion to p^x (1 - p)^(1 - x) on [0, 1] (Loaiza-Ganem and Cunningham, 2019).

    Told by `probs` or by `logits`. lims: between these probabilities, where formulas divide by
    almost zero, series stand in. validate_args: whether parameters and values are checked;
    ValueError for a wrong one, or for none or both of probs and logits.
    """

    has_rsample = True
    support = constraints.unit_interval

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        parameter, self._lims = self._take(probs, logits), lims
        super().__init__(parameter.shape, validate_args=validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where formulas hold, and the probabilities, kept where they do."""
        p = self.probs
        away = (p <= self._lims[0]) | (p > self._lims[1])
        return away, f.where(away, p, self._lims[0])

    def _log_norm(self) -> Tensor:
        away, p = self._split()
        x = (self.probs - 0.5).square()
        norm = (f.log1p(-p) - p.log()) / (1 - 2 * p)
        return f.where(away, norm.log(), math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self.icdf(uniform(self._shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        logits, value = f.broadcast_tensors(self.logits, value)
        loss = nn.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._log_norm() - loss

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        away, p = self._split()
        away_from_half = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        inside = f.where(away, away_from_half, value)
        return f.where(value <= 0, 0.0, f.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        away, p = self._split()
        low = f.log1p(-p)
        away_from_half = (f.log1p(-p + value * (2 * p - 1)) - low) / (p.log() - low)
        return f.where(away, away_from_half, value)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        away, p = self._split()
        x = self.probs - 0.5
        away_from_half = p / (2 * p - 1) + 1 / (f.log1p(-p) - p.log())
        return f.where(away, away_from_half, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        away, p = self._split()
        x = (self.probs - 0.5).square()
        away_from_half = p * (p - 1) / (1 - 2 * p).square() + 1 / (f.log1p(-p) - p.log()).square()
        return f.where(away, away_from_half, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        low = f.log1p(-self.probs)
        return self.mean * (low - self.probs.log()) - self._log_norm() - low


class VonMises(Distribution):
    """Angles around `loc`, with density in proportion to exp(concentration cos(x - loc)).

    validate_args: whether parameters and values are checked; ValueError for a wrong one.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: Number, concentration: Number, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """NotImplementedError: the angles are chosen among proposals."""
        raise self._no("rsample: its draws are not differentiable")

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Angles from -pi to pi, by the proposals of Best and Fisher (1979).

        At least every second of 24 proposals is right on average, so one is in practice.
        """
        shape, k = self._shape(sample_shape), self.concentration.detach()
        tau = 1 + (1 + 4 * k.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        r = f.where(k < 1e-3, 1 / k + k, (1 + rho.square()) / (2 * rho))
        u, v = (uniform((24, *shape), k) for _ in range(2))
        z = (math.pi * u).cos()
        cosine = (1 + r * z) / (r + z)
        c = k * (r - cosine)
        good = (c * (2 - c) > v) | ((c / v).log() + 1 - c >= 0)
        first = good.to("int32").argmax(0, keepdim=True)
        angle = cosine.clamp(-1, 1).gather(0, first).squeeze(0).acos()
        angle = angle * (uniform(shape, k) - 0.5).sign() + self.loc.detach()
        return f.remainder(angle + math.pi, 2 * math.pi) - math.pi

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density of an angle."""
        self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e(k).log()

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean direction."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)
