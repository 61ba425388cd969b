"""Transform, and transforms made of others: inverses, compositions, independent dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.distributions import constraints
from rushlight.core.distributions.constraints import Constraint
from rushlight.core.functional import declared as f
from rushlight.core.tensor.tensor import Tensor


def sum_rightmost(x: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dims."""
    return x.sum(tuple(range(x.ndim - dims, x.ndim))) if dims > 0 else x


class Transform:
    """y = transform(x), x = transform.inv(y). cache_size changes nothing: nothing is kept."""

    bijective = True
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    _sign: int | None = None
    _inverse_of: Transform | None = None

    def __init__(self, cache_size: int = 0) -> None: ...

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def __call__(self, x: Tensor) -> Tensor:
        """The transformed value."""
        return self._call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|, one number per event."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)

    @property
    def sign(self) -> Any:
        """1 if it rises, -1 if it falls; NotImplementedError if neither."""
        if self._sign is None:
            raise NotImplementedError(f"{type(self).__name__} is not monotonic")
        return self._sign

    @property
    def domain_event_dim(self) -> int:
        """The dims of an event that goes in."""
        return self.domain.event_dim

    @property
    def codomain_event_dim(self) -> int:
        """The dims of an event that comes out."""
        return self.codomain.event_dim

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what becomes of a value of `shape`."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what a value of `shape` comes from."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """The inverse of a transform."""

    def __init__(self, of: Transform) -> None:
        self._of, self.bijective = of, of.bijective
        self.domain, self.codomain = of.codomain, of.domain

    def _call(self, x: Tensor) -> Tensor:
        return self._of._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._of._call(y)

    @property
    def inv(self) -> Transform:
        """The transform itself."""
        return self._of

    @property
    def sign(self) -> Any:
        """As of the transform."""
        return self._of.sign

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The negative of the transform's."""
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what comes out."""
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what goes in."""
        return self._of.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self._of!r}.inv"


class ComposeTransform(Transform):
    """Several transforms, the first one first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = list(parts)
        self.bijective = all(p.bijective for p in self.parts)
        if not self.parts:
            return
        first, last = self.parts[0], self.parts[-1]
        dim = last.codomain_event_dim
        for p in reversed(self.parts):
            dim = max(dim + p.domain_event_dim - p.codomain_event_dim, p.domain_event_dim)
        self.domain = constraints.independent(first.domain, dim - first.domain_event_dim)
        dim = first.domain_event_dim
        for p in self.parts:
            dim = max(dim + p.codomain_event_dim - p.domain_event_dim, p.codomain_event_dim)
        self.codomain = constraints.independent(last.codomain, dim - last.codomain_event_dim)

    def _call(self, x: Tensor) -> Tensor:
        for p in self.parts:
            x = p(x)
        return x

    @property
    def inv(self) -> Transform:
        """The inverses, in reverse."""
        return ComposeTransform([p.inv for p in reversed(self.parts)])

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        sign: Any = 1
        for p in self.parts:
            sign = sign * p.sign
        return sign

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the parts', each at its own value."""
        event = self.domain_event_dim
        total: Tensor | None = None
        for i, p in enumerate(self.parts):
            then = y if i == len(self.parts) - 1 else p(x)
            summed = sum_rightmost(p.log_abs_det_jacobian(x, then), event - p.domain_event_dim)
            total = summed if total is None else total + summed
            event += p.codomain_event_dim - p.domain_event_dim
            x = then
        return f.zeros_like(x) if total is None else total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what comes out."""
        for p in self.parts:
            shape = p.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what goes in."""
        for p in reversed(self.parts):
            shape = p.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dims of the batch become dims of the event.

    `base_transform` is applied; `reinterpreted_batch_ndims` dims become the event's. `cache_size`
    changes nothing. It raises nothing of its own.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        base, n = base_transform, reinterpreted_batch_ndims
        self.base_transform, self.reinterpreted_batch_ndims = base, n
        self.bijective = base.bijective
        self.domain = constraints.independent(base.domain, n)
        self.codomain = constraints.independent(base.codomain, n)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    @property
    def sign(self) -> Any:
        """As of the base."""
        return self.base_transform.sign

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The base's, summed over the event."""
        inner = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(inner, self.reinterpreted_batch_ndims)
