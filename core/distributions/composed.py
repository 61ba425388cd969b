"""Distributions made of others: independent dims, mixtures, transformed variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.distributions import constraints
from rushlight.core.distributions.categorical import Categorical
from rushlight.core.distributions.continuous import Exponential, Normal
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.distributions.transform import ComposeTransform, Transform, sum_rightmost
from rushlight.core.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    StickBreakingTransform,
)
from rushlight.core.functional import declared as f
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "Independent",
    "LogNormal",
    "LogisticNormal",
    "MixtureSameFamily",
    "Pareto",
    "TransformedDistribution",
]


class Independent(Distribution):
    """Another distribution whose last dims of the batch become dims of the event.

    The last `reinterpreted_batch_ndims` dims of the batch of `base_distribution`. `validate_args`:
    whether arguments are checked. Raises ValueError for more dims than there are.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        base, n = base_distribution, reinterpreted_batch_ndims
        if n > len(base.batch_shape):
            raise ValueError(
                f"Independent: reinterpreted_batch_ndims is {n}; the base has a batch "
                f"of {len(base.batch_shape)} dims"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        cut = len(base.batch_shape) - n
        event = base.batch_shape[cut:] + base.event_shape
        super().__init__(base.batch_shape[:cut], event, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through draws."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether the values can be listed."""
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @property
    def support(self) -> Any:
        """The base's support, over the event."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density, summed over the event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, where no dim was reinterpreted."""
        if self.reinterpreted_batch_ndims:
            raise self._no("enumerate_support for several dims")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: `mixture_distribution` chooses along the components' last dim of the batch.

    `component_distribution` has the components. `validate_args`: whether arguments are checked.
    Raises ValueError for other kinds, and for shapes that do not fit.
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError("MixtureSameFamily: mixture_distribution must be a Categorical")
        if not isinstance(component, Distribution):
            raise ValueError("MixtureSameFamily: component_distribution must be a Distribution")
        batch, count = component.batch_shape[:-1], mixture.num_events
        if component.batch_shape[-1:] != (count,) or mixture.batch_shape not in ((), batch):
            raise ValueError(
                f"MixtureSameFamily: a mixture of {count} with batch {mixture.batch_shape} does "
                f"not fit components of batch {component.batch_shape}"
            )
        self._mixture_distribution = mixture.expand(batch)
        self._component_distribution = component
        super().__init__(batch, component.event_shape, validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    @property
    def support(self) -> Any:
        """The support of the components."""
        support = self._component_distribution.support
        if "upper_bound" in vars(support) or "lower_bound" in vars(support):
            return constraints.Constraint(
                support.name,
                lambda x: support.check(x.unsqueeze(-1)).any(-1),
                0,
                support.is_discrete,
            )
        return support

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    def _over(self, x: Tensor) -> Tensor:
        return (self._weights() * x).sum(-1 - len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self._over(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The variance, by the law of total variance."""
        away = self._component_distribution.mean - self._pad(self.mean)
        return self._over(self._component_distribution.variance) + self._over(away.square())

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - len(self.event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        each = self._component_distribution.cdf(self._pad(value))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        each = self._component_distribution.log_prob(self._pad(value))
        return f.logsumexp(each + f.log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        with no_grad():
            dim = -1 - len(self.event_shape)
            component = self._mixture_distribution.sample(sample_shape)
            component = component.reshape(*component.shape, *[1] * (1 + len(self.event_shape)))
            each = self._component_distribution.sample(sample_shape)
            shape = list(each.shape)
            shape[dim] = 1
            return each.gather(each.ndim + dim, component.expand(*shape)).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily({self._mixture_distribution!r}, {self._component_distribution!r})"
        )


class TransformedDistribution(Distribution):
    """What `transforms`, one after another, make of draws of a base distribution.

    `base_distribution` is drawn from. `validate_args`: whether arguments are checked. Raises
    ValueError for a base of too few dims.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        base, composed = base_distribution, ComposeTransform(self.transforms)
        shape = base.batch_shape + base.event_shape
        if len(shape) < composed.domain_event_dim:
            raise ValueError(
                f"TransformedDistribution: the base's shape {tuple(shape)} has fewer "
                f"than {composed.domain_event_dim} dims"
            )
        out = composed.forward_shape(shape)
        # The base has the batch that the inverse transform asks for, and the transform's event.
        base = base.expand(composed.inverse_shape(out)[: len(base.batch_shape)])
        more = composed.domain_event_dim - len(base.event_shape)
        self.base_dist = Independent(base, more) if more > 0 else base
        event = max(
            composed.codomain_event_dim,
            len(base.event_shape) + composed.codomain_event_dim - composed.domain_event_dim,
        )
        cut = len(out) - event
        super().__init__(out[:cut], out[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through draws."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        """Where the transforms end."""
        last = self.transforms[-1].codomain if self.transforms else self.base_dist.support
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density, by the transforms' inverses and Jacobians."""
        self._validate_sample(value)
        log_density: Tensor | float = 0.0
        event, y = len(self.event_shape), value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event += transform.domain_event_dim - transform.codomain_event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            log_density = log_density - sum_rightmost(slope, event - transform.domain_event_dim)
            y = x
        return log_density + sum_rightmost(
            self.base_dist.log_prob(y), event - len(self.base_dist.event_shape)
        )

    def _signed(self, probability: Tensor) -> Tensor:
        for transform in self.transforms:
            sign = transform.sign
            probability = sign * (probability - 0.5) + 0.5
        return probability

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`, for monotonic transforms."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._signed(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        return self._forward(self.base_dist.icdf(self._signed(value)))

    def expand(self, batch_shape: Shape, _instance: Any = None) -> TransformedDistribution:
        """The same distributions, repeated along new or size-one dims of the batch."""
        new: TransformedDistribution = super().expand(batch_shape)
        composed = ComposeTransform(self.transforms)
        shape = composed.inverse_shape((*batch_shape, *self.event_shape))
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        return new

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"


class LogNormal(TransformedDistribution):
    """exp of a normal variable.

    `loc` and `scale` are the mean and the deviation of the logarithm. `validate_args`: whether
    arguments are checked. Raises ValueError for parameters outside their sets.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    base_dist: Normal

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        square = self.scale.square()
        return f.expm1(square) * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """A normal vector mapped to the simplex by breaking a stick.

    `loc` and `scale` are those of the normal vector, one shorter. `validate_args`: whether
    arguments are checked. Raises ValueError for parameters outside their sets.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Number, scale: Number, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)


class Pareto(TransformedDistribution):
    """Density alpha scale^alpha / x^(alpha + 1) from `scale` on.

    `validate_args`: whether arguments are checked. Raises ValueError for parameters outside their
    sets.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Number, alpha: Number, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @property
    def support(self) -> Any:
        """From `scale` on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The expected value; inf for alpha of at most 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; inf for alpha of at most 2."""
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return f.log(self.scale / self.alpha) + (1 + self.alpha.reciprocal())
