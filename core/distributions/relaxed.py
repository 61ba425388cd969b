"""Continuous relaxations of 0 and 1 and of classes (Maddison et al.; Jang et al., 2017)."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.distributions import constraints
from rushlight.core.distributions.categorical import Categorical
from rushlight.core.distributions.composed import TransformedDistribution
from rushlight.core.distributions.continuous import uniform
from rushlight.core.distributions.discrete import ByProbs
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.distributions.transforms import ExpTransform, SigmoidTransform
from rushlight.core.functional import declared as f
from rushlight.core.nn import functional as nn
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class _Warm:
    """What has a temperature, which is no parameter of the batch."""

    _heat: tuple[Number]

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self._heat[0]


class LogitRelaxedBernoulli(_Warm, ByProbs):
    """The logit of a relaxed 0 or 1."""

    has_rsample = True
    support = constraints.real

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._heat = (temperature,)
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        u = uniform(self._shape(sample_shape), self._given)
        draws: Tensor = (u.log() - f.log1p(-u) + self.logits) / self.temperature
        return draws

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away: Tensor = logits - value * self.temperature
        heat: Tensor = f.zeros_like(away) + self.temperature
        return heat.log() + away - 2 * nn.softplus(away)


class ExpRelaxedCategorical(_Warm, Distribution):
    """The logarithm of a relaxed one-hot vector."""

    has_rsample = True
    arg_constraints = Categorical.arg_constraints
    support = constraints.real_vector

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self._heat = (temperature,)
        events = self._categorical.num_events
        super().__init__(self._categorical.batch_shape, (events,), validate_args)

    @property
    def probs(self) -> Tensor:
        """The probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logs of the probabilities."""
        return self._categorical.logits

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        noise = -f.log(-f.log(uniform(self._shape(sample_shape), self._categorical._given)))
        scores: Tensor = (self.logits + noise) / self.temperature
        return scores - f.logsumexp(scores, -1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        k = self._categorical.num_events
        logits, value = broadcast_all(self.logits, value)
        t: Tensor = f.zeros_like(logits[..., 0]) + self.temperature
        score: Tensor = f.log_softmax(logits - value * self.temperature, -1).sum(-1)
        return score + math.lgamma(k) + t.log() * (k - 1)


class RelaxedBernoulli(TransformedDistribution):
    """A number in (0, 1) that nears 0 or 1 as the temperature falls.

    Give one of `probs` and `logits`. `validate_args`: whether arguments are checked. Raises
    ValueError for both or none, and for parameters outside their sets (Maddison et al., 2016; Jang
    et al., 2016).
    """

    arg_constraints = ByProbs.arg_constraints
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)

    def __getattr__(self, name: str) -> Any:
        if name in ("temperature", "probs", "logits") and "base_dist" in vars(self):
            return getattr(self.base_dist, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class RelaxedOneHotCategorical(TransformedDistribution):
    """A vector of the sum 1 that nears a one-hot one as the temperature falls.

    Give one of `probs` and `logits`. `validate_args`: whether arguments are checked. Raises
    ValueError for both or none, and for parameters outside their sets (Maddison et al., 2016; Jang
    et al., 2016).
    """

    arg_constraints = Categorical.arg_constraints
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    __getattr__ = RelaxedBernoulli.__getattr__
