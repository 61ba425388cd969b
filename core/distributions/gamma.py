"""Gamma, chi-squared, beta, Dirichlet and Student's t: what gamma variables make.

A gamma variable is drawn by Marsaglia and Tsang's method (2000): the first of a few candidates
that is accepted. Its gradient is that of implicit reparameterization (Figurnov, Mohamed and Mnih,
2018), -(dF/da) / f of its cdf F and density f. F is an integral over a smooth function, and so is
its derivative by the shape a. Logarithms of draws are kept, so that small shapes underflow last.
"""

from __future__ import annotations

import math

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import float64
from rushlight.core.basis.limits import finfo
from rushlight.core.distributions import constraints
from rushlight.core.distributions.continuous import uniform
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.functional import declared as f
from rushlight.core.functional.special.series import half_line, numbers_like
from rushlight.core.ops.derived import derived
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]

_CANDIDATES = 6  # one is accepted with a probability of at least 0.95
_LARGE = 1e4  # from here on the approximation by a cubed normal variable is better


def _log_slope(a: Tensor, z: Tensor) -> Tensor:
    """The derivative of z, the log of a gamma variable, by its shape a."""
    dtype = a.dtype
    a, z = (t.to(float64) if t.device is HOST else t for t in (a, z))
    x, small = z.exp(), a < _LARGE
    w, weight = (numbers_like(a, [row[i] for row in half_line()]) for i in (0, 1))
    low, away = x < a + 1, f.digamma(a).unsqueeze(-1)
    # As in igamma: the lower integral after t = x exp(-w / a), the upper one after t = x + w.
    b, y, line = (f.where(low & small, t, 1.0).unsqueeze(-1) for t in (a, x, z))
    rate = w / b
    line = f.where((low & small).unsqueeze(-1), z.unsqueeze(-1), line)
    below = (f.exp(y * (1 - f.exp(-rate)) - w) * weight * (line - rate - away)).sum(-1) / -a
    b, y = (f.where(low, 1.0, t).unsqueeze(-1) for t in (a, x))
    above = (f.exp((b - 1) * f.log1p(w / y) - w) * weight * (f.log(y + w) - away)).sum(-1) / x
    c = f.exp((z - a.log()) / 3)  # Wilson and Hilferty (1931): x = a c^3 of a normal c
    normal = (1 + 3 / c * (1 / (9 * a) - (c - 1 + 1 / (9 * a)) / 2)) / a
    return f.where(small, f.where(low, below, above), normal).to(dtype)


def log_gamma_draw(a: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The logs of gamma variables of shape parameter `a`, with gradients to it."""
    a = a.expand(*shape)
    with no_grad():
        fixed = a.detach()
        d = f.where(fixed < 1, fixed + 1, fixed) - 1 / 3
        many = (_CANDIDATES, *shape)
        n = f.randn(many, dtype=a.dtype, device=a.device)
        u = uniform(many, a)
        v = (1 + n / (9 * d).sqrt()).clamp(min=1e-4) ** 3
        good = u.log() < 0.5 * n.square() + d - d * v + d * v.log()
        first = good.to("int32").argmax(0, keepdim=True)
        z = d.log() + v.gather(0, first).squeeze(0).log()
        z = f.where(fixed < 1, z + uniform(shape, a).log() / fixed, z)
    return derived("gamma_draw", lambda a, z: z, (lambda a, z, out: _log_slope(a, out), None), a, z)


def _positive(x: Tensor) -> Tensor:
    return x.clamp(min=finfo(x.dtype).tiny)


class _ByRate(Distribution):
    has_rsample = True
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}

    def __init__(
        self, concentration: Number, rate: Number, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)


class Gamma(_ByRate):
    """Density rate^a x^(a - 1) exp(-rate x) / gamma(a), where a is `concentration`.

    `validate_args`: whether arguments are checked. Raises ValueError for parameters outside their
    sets.
    """

    support = constraints.nonnegative

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        shape = self._shape(sample_shape)
        return _positive(f.exp(log_gamma_draw(self.concentration, shape)) / self.rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return f.xlogy(a, rate) + f.xlogy(a - 1, value) - rate * value - f.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        self._validate_sample(value)
        return f.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a = self.concentration
        return a - self.rate.log() + f.lgamma(a) + (1 - a) * f.digamma(a)


class Chi2(Gamma):
    """The sum of `df` squared standard normal variables."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Number, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args=validate_args)


class InverseGamma(_ByRate):
    """One divided by a gamma variable.

    `concentration` and `rate` are the gamma variable's. `validate_args`: whether arguments are
    checked. Raises ValueError for parameters outside their sets.
    """

    support = constraints.positive

    @property
    def mean(self) -> Tensor:
        """The expected value; inf for a concentration of at most 1."""
        a = self.concentration
        return f.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance; inf for a concentration of at most 2."""
        a = self.concentration
        return f.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self.rate * f.exp(-log_gamma_draw(self.concentration, self._shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return f.xlogy(a, rate) - (a + 1) * value.log() - rate / value - f.lgamma(a)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a = self.concentration
        return a + self.rate.log() + f.lgamma(a) - (1 + a) * f.digamma(a)


class Dirichlet(Distribution):
    """Vectors with the sum 1, with density proportional to the product of x^(concentration - 1)."""

    has_rsample = True
    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("Dirichlet: concentration must have at least one dim")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """The most likely value; a corner where every concentration is below 1."""
        a = (self.concentration - 1).clamp(min=0)
        mode = a / a.sum(-1, keepdim=True)
        none = (self.concentration < 1).all(-1, keepdim=True)
        is_largest = f.arange(a.shape[-1], device=a.device) == self.concentration.argmax(
            -1, keepdim=True
        )
        return f.where(none, is_largest.to(a.dtype), mode)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        a = self.concentration
        total = a.sum(-1, keepdim=True)
        return a * (total - a) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        logs = log_gamma_draw(self.concentration, self._shape(sample_shape))
        return _positive(f.softmax(logs, -1))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        a = self.concentration
        return f.xlogy(a - 1, value).sum(-1) + f.lgamma(a.sum(-1)) - f.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a = self.concentration
        k, total = a.shape[-1], a.sum(-1)
        beta = f.lgamma(a).sum(-1) - f.lgamma(total)
        return beta - (k - total) * f.digamma(total) - ((a - 1) * f.digamma(a)).sum(-1)


class Beta(Distribution):
    """Density proportional to x^(concentration1 - 1) (1 - x)^(concentration0 - 1) in [0, 1].

    `validate_args`: whether arguments are checked. Raises ValueError for parameters outside their
    sets.
    """

    has_rsample = True
    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(
        self, concentration1: Number, concentration0: Number, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration0.shape, validate_args=validate_args)

    @property
    def _both(self) -> Dirichlet:
        pair = f.stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(pair, validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self._both.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variance."""
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self._both.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        scale = f.lgamma(a + b) - f.lgamma(a) - f.lgamma(b)
        return f.xlogy(a - 1, value) + f.xlogy(b - 1, 1 - value) + scale

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self._both.entropy()


class StudentT(Distribution):
    """A normal variable over the root of a chi-squared one divided by `df`.

    `loc` is added to it, and it is times `scale`. `validate_args`: whether arguments are checked.
    Raises ValueError for parameters outside their sets.
    """

    has_rsample = True
    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real

    def __init__(
        self,
        df: Number,
        loc: Number = 0.0,
        scale: Number = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The location; nan for `df` of at most 1."""
        return f.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance: inf for `df` of at most 2, nan for at most 1."""
        df = self.df
        variance = self.scale.square() * df / (df - 2)
        return f.where(df > 2, variance, f.where(df > 1, math.inf, f.full_like(df, math.nan)))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        shape, df = self._shape(sample_shape), self.df
        n = f.randn(shape, dtype=df.dtype, device=df.device)
        half = f.exp((log_gamma_draw(df / 2, shape) - f.log(df / 2)) * -0.5)
        return self.loc + self.scale * n * half

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        df, y = self.df, (value - self.loc) / self.scale
        scale = self.scale.log() + 0.5 * (df.log() + math.log(math.pi))
        scale = scale + f.lgamma(0.5 * df) - f.lgamma(0.5 * (df + 1))
        return -0.5 * (df + 1) * f.log1p(y.square() / df) - scale

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        df = self.df
        beta = f.lgamma(0.5 * df) + math.lgamma(0.5) - f.lgamma(0.5 * (1 + df))
        rise = f.digamma(0.5 * (df + 1)) - f.digamma(0.5 * df)
        return self.scale.log() + 0.5 * (df + 1) * rise + 0.5 * df.log() + beta


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared variables, each divided by its degrees of freedom.

    `df1` and `df2` are these degrees of freedom. `validate_args`: whether arguments are checked.
    Raises ValueError for parameters outside their sets.
    """

    has_rsample = True
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive

    def __init__(self, df1: Number, df2: Number, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value; nan for `df2` of at most 2."""
        return f.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely value; nan for `df1` of at most 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return f.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; nan for `df2` of at most 4."""
        a, b = self.df1, self.df2
        variance = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return f.where(b > 4, variance, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        shape = self._shape(sample_shape)
        a, b = (log_gamma_draw(df / 2, shape) - df.log() for df in (self.df1, self.df2))
        return _positive(f.exp(a - b))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        scale = f.lgamma(a + b) - f.lgamma(a) - f.lgamma(b) + a * ratio.log()
        return scale + (a - 1) * value.log() - (a + b) * f.log1p(ratio * value)
