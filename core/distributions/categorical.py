"""Distributions over classes: an index, a one-hot vector, counts."""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.limits import finfo
from rushlight.core.distributions import constraints
from rushlight.core.distributions.discrete import Binomial, ByProbs
from rushlight.core.distributions.distribution import Distribution, Shape
from rushlight.core.functional import declared as f
from rushlight.core.functional.random import drawn_index
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(ByProbs):
    """An index (int64) of the last dim of `probs`, which need not sum to one, or of `logits`.

    `validate_args`: whether arguments are checked. Raises ValueError for both or none of the two,
    and for parameters outside their sets.
    """

    has_enumerate_support = True
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        parameter = self._take(probs, logits)
        if parameter.ndim < 1:
            raise ValueError("Categorical: probs or logits must have at least one dim")
        if logits is None:
            self.probs = parameter / parameter.sum(-1, keepdim=True)
        else:
            self.logits = parameter - f.logsumexp(parameter, -1, keepdim=True)
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    def _to_probs(self, logits: Tensor) -> Tensor:
        return f.softmax(logits, -1)

    def _to_logits(self, probs: Tensor) -> Tensor:
        eps = finfo(probs.dtype).eps
        return probs.clamp(eps, 1 - eps).log()

    @property
    def num_events(self) -> int:
        """The number of classes."""
        return self._given.shape[-1]

    _num_events = num_events

    @property
    def support(self) -> Any:
        """The indices of the classes."""
        return constraints.integer_interval(0, self.num_events - 1)

    @property
    def mean(self) -> Tensor:
        """nan: classes have no order."""
        return f.full(
            self.batch_shape, float("nan"), dtype=self._given.dtype, device=self._given.device
        )

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self._given.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """nan: classes have no order."""
        return self.mean

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        shape = self._shape(sample_shape)
        if not shape and (drawn := drawn_index(self.probs, None, ())) is not None:
            return drawn
        count = 1
        for n in shape[: len(shape) - len(self.batch_shape)]:
            count *= n
        with no_grad():
            rows = self.probs
            if rows.ndim != 1:
                rows = rows.reshape(-1, self.num_events)
            if count == 0 or rows.shape[0] == 0:
                return f.zeros(shape, dtype="int64", device=rows.device)
            drawn = f.multinomial(rows, count, True)
            return (drawn.t() if drawn.ndim == 2 and count > 1 else drawn).reshape(*shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        index, logits = value.to("int64").unsqueeze(-1), self.logits
        shape = f.broadcast_shapes(index.shape[:-1], logits.shape[:-1])
        index, logits = index.expand(*shape, 1), logits.expand(*shape, logits.shape[-1])
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The indices of the classes."""
        return self._enumerated(f.arange(self.num_events, device=self._given.device), expand)


class _OfClasses(Distribution):
    """A distribution of vectors over the classes of a Categorical."""

    arg_constraints = Categorical.arg_constraints
    _categorical: Categorical
    probs: Tensor
    logits: Tensor

    def __getattr__(self, name: str) -> Any:
        if name in ("probs", "logits", "param_shape") and "_categorical" in vars(self):
            return getattr(self._categorical, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _vectors(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        events = self._categorical.num_events
        Distribution.__init__(self, self._categorical.batch_shape, (events,), validate_args)

    def _ones(self, index: Tensor) -> Tensor:
        like: Tensor = self._categorical._given
        places = f.arange(self._categorical.num_events, device=like.device)
        return (index.unsqueeze(-1) == places).to(like.dtype)


class OneHotCategorical(_OfClasses):
    """A vector with a one at the class that was drawn, and zeros.

    Give one of `probs` and `logits`. The last dim has the classes. `validate_args`: whether
    arguments are checked. Raises ValueError for both or none, and for parameters outside their
    sets.
    """

    has_enumerate_support = True
    support = constraints.one_hot

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._vectors(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self._ones(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        return self._ones(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The rows of the identity."""
        return self._ones(self._categorical.enumerate_support(expand))


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws with the gradient of the probabilities (Bengio, Léonard, Courville, 2013).

    Give one of `probs` and `logits`. The last dim has the classes. `validate_args`: whether
    arguments are checked. Raises ValueError for both or none, and for parameters outside their
    sets.
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws whose gradient is passed on to the probabilities."""
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(_OfClasses):
    """How often each class was drawn in `total_count` draws.

    Give one of `probs` and `logits`. The last dim has the classes. `validate_args`: whether
    arguments are checked. Raises ValueError for both or none, and for parameters outside their
    sets; NotImplementedError for a total_count that is no int.
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be an int, one for all")
        self.total_count = total_count
        self._vectors(probs, logits, validate_args)

    @property
    def support(self) -> Any:
        """Counts of the sum total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The expected counts."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance of each count."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws."""
        first = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return self._ones(self._categorical.sample((self.total_count, *first))).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log probability."""
        self._validate_sample(value)
        logits = f.where((value == 0) & (self.logits == -float("inf")), 0.0, self.logits)
        ways = f.lgamma(value.sum(-1) + 1) - f.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        n = self.total_count
        binomial = Binomial(n, probs=self.probs, validate_args=False)
        counts = binomial.enumerate_support(False)[1:]
        repeated = (f.exp(binomial.log_prob(counts)) * f.lgamma(counts + 1)).sum(0).sum(-1)
        log_factorial = f.lgamma(f.full((), n + 1.0, dtype=repeated.dtype, device=repeated.device))
        return n * self._categorical.entropy() - log_factorial + repeated
