"""From constraints to transforms: what lets an optimizer move freely where values are bounded.

`biject_to(constraint)` is a bijection of real numbers onto the set, `transform_to(constraint)` a
map onto it that need not be one to one, as in torch.distributions.constraint_registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.distributions.constraints import Constraint
from rushlight.core.distributions.shaped import CorrCholeskyTransform, PositiveDefiniteTransform
from rushlight.core.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    identity_transform,
)
from rushlight.core.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    LowerCholeskyTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Makes the transform of a constraint by a function that was registered for its kind."""

    def __init__(self) -> None:
        self._factories: dict[Any, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Let `factory(constraint)` make the transforms of constraints like this one.

        constraint: one of a kind, what makes such (`constraints.interval`), or a subclass of
        Constraint. Without `factory` it is a decorator of one. Raises TypeError for another object.
        """
        if factory is None:
            return lambda decorated: self.register(constraint, decorated)
        key: Any = constraint
        if isinstance(constraint, Constraint):
            key = constraint.kind or type(constraint)
        elif not isinstance(constraint, type) and hasattr(constraint, "__name__"):
            key = constraint.__name__
        elif not (isinstance(constraint, type) and issubclass(constraint, Constraint)):
            raise TypeError(f"register: {constraint!r} is no constraint of rl.distributions")
        self._factories[key] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform; NotImplementedError for a constraint of a kind without one."""
        keys = (constraint.kind or type(constraint), type(constraint))
        for key in keys:
            if (factory := self._factories.get(key)) is not None:
                return factory(constraint)
        raise NotImplementedError(
            f"there is no transform onto {constraint!r}; give one with register(constraint, "
            "factory)"
        )


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1.0)])


def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1.0)])


def _between(constraint: Any) -> Transform:
    lower, upper = constraint.lower_bound, constraint.upper_bound
    return ComposeTransform([SigmoidTransform(), AffineTransform(lower, upper - lower)])


def _independent(registry: ConstraintRegistry) -> Factory:
    def make(constraint: Any) -> Transform:
        inner = registry(constraint.base_constraint)
        return IndependentTransform(inner, constraint.reinterpreted_batch_ndims)

    return make


_FACTORIES: dict[str, Factory] = {
    "real": lambda _: identity_transform,
    "positive": lambda _: ExpTransform(),
    "nonnegative": lambda _: ExpTransform(),
    "greater_than": _above,
    "greater_than_eq": _above,
    "less_than": _below,
    "interval": _between,
    "half_open_interval": _between,
    "unit_interval": lambda _: SigmoidTransform(),
    "lower_cholesky": lambda _: LowerCholeskyTransform(),
    "positive_definite": lambda _: PositiveDefiniteTransform(),
    "corr_cholesky": lambda _: CorrCholeskyTransform(),
}
for _registry in (biject_to, transform_to):
    _registry._factories |= _FACTORIES
    _registry._factories["independent"] = _independent(_registry)
biject_to._factories["simplex"] = lambda _: StickBreakingTransform()
transform_to._factories["simplex"] = lambda _: SoftmaxTransform()
