"""The sets that parameters and values of distributions lie in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.functional import declared as f
from rushlight.core.functional.linalg.factorizations import cholesky_ex
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "Constraint", "boolean", "corr_cholesky", "dependent", "greater_than", "greater_than_eq",
    "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "real",
    "real_vector", "simplex", "square", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values: `check(value)` says which lie in it, without the last `event_dim` dims.

    `name` is what it is called, `is_discrete`: whether its values are; `bounds` are kept as
    attributes. Raises nothing; `check` may. kind: by which `biject_to` and `transform_to` know it.
    """

    kind = ""

    def __init__(
        self,
        name: str,
        check: Callable[[Tensor], Tensor],
        event_dim: int = 0,
        is_discrete: bool = False,
        **bounds: Any,
    ) -> None:
        self.name, self.check, self.event_dim = name, check, event_dim
        self.is_discrete = is_discrete
        vars(self).update(bounds)  # lower_bound and upper_bound, where there are any

    def __repr__(self) -> str:
        return self.name


def _whole(x: Tensor) -> Tensor:
    return x == x.floor() if x.dtype.is_floating_point else f.ones_like(x, dtype="bool")


def interval(lower: Any, upper: Any) -> Constraint:
    """Real numbers from `lower` to `upper`, both included."""
    return Constraint(
        f"from {lower} to {upper}",
        lambda x: (x >= lower) & (x <= upper),
        kind="interval",
        lower_bound=lower,
        upper_bound=upper,
    )


def half_open_interval(lower: Any, upper: Any) -> Constraint:
    """Real numbers from `lower`, included, to `upper`, not included."""
    return Constraint(
        f"from {lower} to below {upper}",
        lambda x: (x >= lower) & (x < upper),
        kind="half_open_interval",
        lower_bound=lower,
        upper_bound=upper,
    )


def integer_interval(lower: Any, upper: Any) -> Constraint:
    """Integers from `lower` to `upper`, both included."""

    def check(x: Tensor) -> Tensor:
        inside: Tensor = (x >= lower) & (x <= upper)
        return inside & _whole(x) if x.dtype.is_floating_point else inside

    return Constraint(
        f"an integer from {lower} to {upper}",
        check,
        is_discrete=True,
        kind="integer_interval",
        lower_bound=lower,
        upper_bound=upper,
    )


def greater_than(lower: Any) -> Constraint:
    """Real numbers above `lower`."""
    name = f"greater than {lower}"
    return Constraint(name, lambda x: x > lower, kind="greater_than", lower_bound=lower)


def greater_than_eq(lower: Any) -> Constraint:
    """Real numbers from `lower` on."""
    name = f"at least {lower}"
    return Constraint(name, lambda x: x >= lower, kind="greater_than_eq", lower_bound=lower)


def less_than(upper: Any) -> Constraint:
    """Real numbers below `upper`."""
    name = f"less than {upper}"
    return Constraint(name, lambda x: x < upper, kind="less_than", upper_bound=upper)


def multinomial(upper: Any) -> Constraint:
    """Vectors of counts with the sum `upper`."""
    return Constraint(
        f"counts of sum {upper}",
        lambda x: (_whole(x) & (x >= 0)).all(-1) & (x.sum(-1) == upper),
        1,
        True,
    )


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """`base` for every element of the last dims, which become dims of the event."""
    n = reinterpreted_batch_ndims

    def check(x: Tensor) -> Tensor:
        inside = base.check(x)
        return inside.all(tuple(range(inside.ndim - n, inside.ndim))) if n else inside

    return Constraint(
        base.name,
        check,
        base.event_dim + n,
        base.is_discrete,
        kind="independent",
        base_constraint=base,
        reinterpreted_batch_ndims=n,
    )


def is_dependent(constraint: Constraint) -> bool:
    """Whether the set depends on other parameters, so that it is not known to the class."""
    return constraint is dependent


def _square(x: Tensor) -> Tensor:
    fits = x.ndim > 1 and x.shape[-1] == x.shape[-2]
    return f.full(x.shape[:-2], fits, dtype="bool", device=x.device)


def _triangular(x: Tensor) -> Tensor:
    return (x.tril() == x).all(-1).all(-1)


def _symmetric(x: Tensor) -> Tensor:
    gap = (x - x.mT).abs()
    close: Tensor = gap <= 1e-6 + 1e-5 * x.abs()
    return close.all(-1).all(-1)


def _definite(x: Tensor) -> Tensor:
    return _symmetric(x) & (cholesky_ex(x)[1] == 0)


dependent = Constraint("dependent", lambda x: f.ones_like(x, dtype="bool"))
real = Constraint("real", lambda x: x == x)  # a nan differs from itself
real_vector = independent(real, 1)
boolean = Constraint("0 or 1", lambda x: (x == 0) | (x == 1), is_discrete=True)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
nonnegative_integer = Constraint(
    "an integer of at least 0", lambda x: _whole(x) & (x >= 0), is_discrete=True
)
positive_integer = Constraint(
    "an integer of at least 1", lambda x: _whole(x) & (x >= 1), is_discrete=True
)
simplex = Constraint(
    "at least 0 with the sum 1", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1
)
one_hot = Constraint("one-hot", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True)
square = Constraint("a square matrix", _square, 2)
symmetric = Constraint("a symmetric matrix", lambda x: _square(x) & _symmetric(x), 2)
lower_triangular = Constraint("lower triangular", _triangular, 2)
lower_cholesky = Constraint(
    "lower triangular with a positive diagonal",
    lambda x: _triangular(x) & (x.diagonal(0, -2, -1) > 0).all(-1),
    2,
)
positive_definite = Constraint("a positive definite matrix", _definite, 2)
corr_cholesky = Constraint(
    "lower triangular with a positive diagonal and rows of length 1",
    lambda x: lower_cholesky.check(x) & ((x.square().sum(-1) - 1).abs() <= 1e-4).all(-1),
    2,
)

# Those that are one set each are known by their own names.
for _name in (
    "boolean corr_cholesky dependent lower_cholesky lower_triangular nonnegative "
    "nonnegative_integer one_hot positive positive_definite positive_integer real simplex square "
    "symmetric unit_interval"
).split():
    globals()[_name].kind = _name
