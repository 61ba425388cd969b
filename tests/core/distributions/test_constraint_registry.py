"""Transforms by constraints: values lie in the set, and the bijections go back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.distributions import (
    Gamma,
    LKJCholesky,
    MultivariateNormal,
    Normal,
    biject_to,
    constraints,
    transform_to,
)

SETS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "real": (constraints.real, (4,)),
    "real_vector": (constraints.real_vector, (2, 3)),
    "positive": (constraints.positive, (4,)),
    "nonnegative": (constraints.nonnegative, (4,)),
    "above": (constraints.greater_than(2.0), (4,)),
    "from": (constraints.greater_than_eq(rl.tensor(-1.0)), (4,)),
    "below": (constraints.less_than(3.0), (4,)),
    "between": (constraints.interval(-1.0, 2.0), (4,)),
    "half open": (constraints.half_open_interval(0.0, 5.0), (4,)),
    "unit": (constraints.unit_interval, (4,)),
    "rows": (constraints.independent(constraints.positive, 1), (2, 3)),
    "simplex": (constraints.simplex, (2, 3)),
    "triangular": (constraints.lower_cholesky, (2, 3, 3)),
    "definite": (constraints.positive_definite, (3, 3)),
    "correlations": (constraints.corr_cholesky, (2, 3)),
}


@pytest.mark.parametrize("name", SETS)
def test_values_lie_in_the_set(name: str) -> None:
    constraint, shape = SETS[name]
    x = rl.from_numpy(np.random.default_rng(2).standard_normal(shape, np.float32))
    for registry in (biject_to, transform_to):
        transform = registry(constraint)
        y = transform(x)
        inside = constraint.check(y)
        assert inside.all() and inside.shape == y.shape[: y.ndim - constraint.event_dim]
    bijection = biject_to(constraint)
    if bijection.bijective and name not in ("triangular", "definite"):
        np.testing.assert_allclose(bijection.inv(bijection(x)), x, rtol=1e-4, atol=1e-5)


def test_supports_and_parameters_of_distributions() -> None:
    x = rl.tensor([-1.5, 0.0, 2.0])
    for support in (Normal(0.0, 1.0).support, Gamma(1.0, 1.0).support):
        assert support.check(transform_to(support)(x)).all()
    scale = MultivariateNormal.arg_constraints["scale_tril"]
    assert scale.check(transform_to(scale)(rl.ones(2, 2)))
    factor = LKJCholesky(3).sample()
    unbounded = transform_to(constraints.corr_cholesky).inv(factor)
    np.testing.assert_allclose(
        transform_to(constraints.corr_cholesky)(unbounded), factor, rtol=1e-4, atol=1e-5
    )


def test_a_fit_moves_freely() -> None:
    values = rl.distributions.Exponential(rl.tensor(4.0)).sample((512,))
    rate_of = biject_to(rl.distributions.Exponential.arg_constraints["rate"])
    free = rl.zeros(()).requires_grad_()
    optimizer = rl.optim.Adam([free], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = -rl.distributions.Exponential(rate_of(free)).log_prob(values).mean()
        loss.backward()
        optimizer.step()
    assert abs(float(rate_of(free)) * float(values.mean()) - 1) < 0.01


def test_others_are_named_and_can_be_registered() -> None:
    with pytest.raises(NotImplementedError, match=r"onto 0 or 1; give one with register"):
        biject_to(constraints.boolean)

    class Even(constraints.Constraint):
        pass

    even = Even("even", lambda x: x % 2 == 0)

    @transform_to.register(Even)  # type: ignore[untyped-decorator]
    def double(constraint: Even) -> Any:
        return rl.distributions.AffineTransform(0.0, 2.0)

    assert transform_to(even)(rl.tensor([1.0, 3.0])).tolist() == [2.0, 6.0]
    with pytest.raises(TypeError, match="is no constraint"):
        transform_to.register(3, double)
