"""Distribution: what all distributions have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from rushlight.core.basis.dtype import float32
from rushlight.core.basis.layout import Size, broadcast_shapes
from rushlight.core.distributions.constraints import Constraint, is_dependent
from rushlight.core.functional import declared as f
from rushlight.core.jit import capture
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

D = TypeVar("D", bound="Distribution")
Shape = Sequence[int]
Number = Tensor | float


def broadcast_all(*values: Number) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers are float32, or as the tensors are."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = float32 if like is None or not like.dtype.is_floating_point else like.dtype
    device = "cpu" if like is None else like.device
    tensors = [
        v if isinstance(v, Tensor) else f.full((), v, dtype=dtype, device=device) for v in values
    ]
    shape = broadcast_shapes("broadcast_all", *(t.shape for t in tensors))
    return tuple(t.expand(*shape) for t in tensors)


class Distribution:
    """A batch of distributions of events.

    batch_shape: of the parameters; event_shape: of one draw. validate_args: whether parameters,
    and values given to methods, are checked (ValueError names what is wrong). None: where the
    numbers are at hand, which they are not on an asynchronous device and within `jit` or `vmap`.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Mapping[str, Constraint] = {}
    _validate = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where validate_args is None."""
        Distribution._validate = bool(value)

    def __init__(
        self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None
    ) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        self._check = validate_args
        for name, constraint in self.arg_constraints.items():
            # A parameter that was not given is computed from the others.
            value = vars(self).get(name)
            if isinstance(value, Tensor) and not is_dependent(constraint):
                self._checked(name, value, constraint)

    def _checks(self, value: Tensor) -> bool:
        if self._check is not None:
            return self._check
        device = value.device
        unread = device.backend.asynchronous or device.type == "meta" or value.level
        hidden = unread or capture.capturing()
        return self._validate and not hidden

    def _checked(self, name: str, value: Tensor, constraint: Constraint) -> None:
        if not self._checks(value):
            return
        with no_grad():
            inside = constraint.check(value.detach())
            if not inside.all():
                raise ValueError(
                    f"{type(self).__name__}: {name} of shape {tuple(value.shape)} must be "
                    f"{constraint}; found {value.detach()}"
                )

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError for a value that no draw can be, by its shape or its numbers."""
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(self).__name__}: the value is a {type(value).__name__}; it must be a Tensor"
            )
        if self._check is False or not self._validate:
            return
        n = value.ndim - len(self.event_shape)
        full_shape = self.batch_shape + self.event_shape
        pairs = zip(reversed(value.shape), reversed(full_shape), strict=False)
        if (
            n < 0
            or value.shape[n:] != self.event_shape
            or any(1 not in (a, b) and a != b for a, b in pairs)
        ):
            raise ValueError(
                f"{type(self).__name__}: a value of shape {tuple(value.shape)} does "
                f"not fit {tuple(full_shape)}"
            )
        self._checked("value", value, self.support)

    def _shape(self, sample_shape: Shape | int) -> tuple[int, ...]:
        """The shape of draws."""
        first = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return (*first, *self.batch_shape, *self.event_shape)

    def _no(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def expand(self: D, batch_shape: Shape, _instance: Any = None) -> D:
        """The same distributions, repeated along new or size-one dims of the batch."""
        old, shape = len(self.batch_shape), tuple(batch_shape)
        new = type(self).__new__(type(self))
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                value = value.expand(*shape, *value.shape[old:])
            elif isinstance(value, Distribution):
                value = value.expand((*shape, *value.batch_shape[old:]))
            vars(new)[name] = value
        new.batch_shape = Size(shape)
        return new

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow to the parameters; shape sample + batch + event."""
        raise self._no("rsample: its draws are not differentiable")

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws, without gradient; shape sample_shape + batch_shape + event_shape."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the density or probability of `value`; one number per event."""
        raise self._no("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        raise self._no("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise self._no("icdf")

    def entropy(self) -> Tensor:
        """The entropy in nats; shape batch_shape."""
        raise self._no("entropy")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values along a new first dim; expand: for every element of the batch."""
        raise self._no("enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        column = values.reshape(-1, *[1] * len(self.batch_shape))
        return column.expand(-1, *self.batch_shape) if expand else column

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    @property
    def support(self) -> Any:
        """The set that draws lie in."""
        raise self._no("support")

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._no("mean")

    @property
    def mode(self) -> Tensor:
        """The value of largest density or probability."""
        raise self._no("mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise self._no("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def __repr__(self) -> str:
        parts = [
            f"{n}: {v if v.numel() == 1 and self._checks(v) else tuple(v.shape)}"
            for n, v in vars(self).items()
            if n in self.arg_constraints and isinstance(v, Tensor)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"
