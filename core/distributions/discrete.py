"""Distributions of 0 and 1, of classes and of counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.core.basis.limits import finfo
from rushlight.core.distributions import constraints
from rushlight.core.distributions.continuous import uniform
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.distributions.gamma import log_gamma_draw
from rushlight.core.functional import declared as f
from rushlight.core.functional.random import bernoulli, poisson, successes
from rushlight.core.jit import capture
from rushlight.core.nn import functional as nn
from rushlight.core.ops.unary import floor, sigmoid
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the dtype's eps."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


class ByProbs(Distribution):
    """Told by `probs`, or by `logits`; the other is computed."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    probs: Tensor
    logits: Tensor

    def _take(self, probs: Number | None, logits: Number | None) -> Tensor:
        """Keep the parameter that was given, as a tensor."""
        if (probs is None) == (logits is None):
            raise ValueError(
                f"{type(self).__name__}: either probs or logits must be given, but not both"
            )
        name, parameter = ("probs", probs) if logits is None else ("logits", logits)
        assert parameter is not None
        (vars(self)[name],) = broadcast_all(parameter)
        stored: Tensor = vars(self)[name]
        return stored

    def __getattr__(self, name: str) -> Any:
        attributes = vars(self)
        if name == "probs" and "logits" in attributes:
            return self._computed(self._to_probs, attributes["logits"])
        if name == "logits" and "probs" in attributes:
            return self._computed(self._to_logits, attributes["probs"])
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _computed(self, convert: Callable[[Tensor], Tensor], given: Tensor) -> Tensor:
        """The other parameter; of one without gradient it is kept until that is written to."""
        if capture.active or given.level or given.requires_grad:
            return convert(given)
        storage, version = given.storage, given.storage.version
        known = vars(self).get("_converted")
        if known is None or known[0] is not storage or known[1] != version:
            known = self._converted = storage, version, convert(given)
        converted: Tensor = known[2]
        return converted

    def _to_probs(self, logits: Tensor) -> Tensor:
        return sigmoid(logits)

    def _to_logits(self, probs: Tensor) -> Tensor:
        clamped = clamp_probs(probs)
        return clamped.log() - f.log1p(-clamped)

    @property
    def _given(self) -> Tensor:
        attributes = vars(self)
        stored: Tensor = attributes["probs"] if "probs" in attributes else attributes["logits"]
        return stored

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self._given.shape


class Bernoulli(ByProbs):
    """1 with probability `probs`, else 0.

    Or by its `logits`. `validate_args`: whether arguments are checked. Raises ValueError for both
    or none of the two, and for parameters outside their sets.
    """

    has_enumerate_support = True
    support = constraints.boolean

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probability of 1."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; nan where both are equally likely."""
        p = self.probs
        return f.where(p == 0.5, math.nan, (p >= 0.5).to(p.dtype))

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        with no_grad():
            return bernoulli(self.probs.expand(*self._shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -nn.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return nn.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1."""
        like = self._given
        return self._enumerated(f.arange(2, dtype=like.dtype, device=like.device), expand)


class Geometric(ByProbs):
    """Failures before the first success of probability `probs`.

    Or by its `logits`. `validate_args`: whether arguments are checked. Raises ValueError for both
    or none of the two, and for parameters outside their sets.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)
        self._checked("probs", self.probs, constraints.greater_than(0.0))

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return f.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        with no_grad():
            p = self.probs
            return floor(uniform(self._shape(sample_shape), p).log() / f.log1p(-p))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        away = f.where((probs == 1) & (value == 0), 0.0, probs)
        return value * f.log1p(-away) + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        cross_entropy = nn.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )
        return cross_entropy / self.probs


class Binomial(ByProbs):
    """Successes among `total_count` trials of probability `probs`.

    A draw is a sum of `total_count` draws of 0 and 1.

    Or by its `logits`. `validate_args`: whether arguments are checked. Raises ValueError for both
    or none of the two, and for parameters outside their sets.
    """

    has_enumerate_support = True
    arg_constraints = {"total_count": constraints.nonnegative_integer, **ByProbs.arg_constraints}

    def __init__(
        self,
        total_count: Number = 1,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        parameter = self._take(probs, logits)
        self._most = None if isinstance(total_count, Tensor) else int(total_count)
        counts = total_count.to(parameter) if isinstance(total_count, Tensor) else total_count
        name = "probs" if logits is None else "logits"
        self.total_count, vars(self)[name] = broadcast_all(counts, parameter)
        super().__init__(self.total_count.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return f.minimum(floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def _counts(self) -> int:
        if self._most is None:
            self._most = int(self.total_count.max().item())
        return self._most

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        p = self.probs.expand(*self._shape(sample_shape))
        return successes(self.total_count, p, self._counts())

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = f.lgamma(n + 1) - f.lgamma(value + 1) - f.lgamma(n - value + 1)
        # log(1 + exp(logits)) without overflow
        rest = n * (logits.clamp(min=0) + f.log1p(f.exp(-logits.abs())))
        return ways + value * logits - rest

    def entropy(self) -> Tensor:
        """The entropy in nats; NotImplementedError where the counts differ."""
        values = self.enumerate_support(False)
        logs = self.log_prob(values)
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to total_count; NotImplementedError where the counts differ."""
        most, parameter = self._counts(), self._given
        if not bool((self.total_count == most).all()):
            raise NotImplementedError("Binomial: enumerate_support needs one total_count for all")
        values = f.arange(most + 1, dtype=parameter.dtype, device=parameter.device)
        return self._enumerated(values, expand)


class NegativeBinomial(ByProbs):
    """Successes of probability `probs` before `total_count` failures.

    Or by its `logits`. `validate_args`: whether arguments are checked. Raises ValueError for both
    or none of the two, and for parameters outside their sets.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative,
        "logits": constraints.real,
        "probs": constraints.half_open_interval(0.0, 1.0),
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        parameter = self._take(probs, logits)
        counts = total_count.to(parameter) if isinstance(total_count, Tensor) else total_count
        name = "probs" if logits is None else "logits"
        self.total_count, vars(self)[name] = broadcast_all(counts, parameter)
        super().__init__(self.total_count.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.total_count * f.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return floor((self.total_count - 1) * f.exp(self.logits)).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.mean / sigmoid(-self.logits)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        with no_grad():
            logs = log_gamma_draw(self.total_count, self._shape(sample_shape))
            return poisson(f.exp(logs + self.logits))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        n = self.total_count
        plain = n * nn.logsigmoid(-self.logits) + value * nn.logsigmoid(self.logits)
        ways = f.lgamma(n + value) - f.lgamma(1 + value) - f.lgamma(n)
        return plain + f.where(n + value == 0, 0.0, ways)


class Poisson(Distribution):
    """Counts of independent events of expected number `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The rate."""
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        with no_grad():
            return poisson(self.rate.expand(*self._shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        return f.xlogy(value, self.rate) - self.rate - f.lgamma(value + 1)
