"""Distributions: draws have the moments of their distribution, and gradients flow through them.

What methods give is compared with PyTorch in tests/core/tensor/test_goldens.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import distributions as dist
from rushlight.core.distributions.gamma import _log_slope, log_gamma_draw

Maker = Callable[[str], dist.Distribution]


def t(device: str, *values: float) -> rl.Tensor:
    return rl.tensor(list(values), device=device)


MAKERS: dict[str, Maker] = {
    "normal": lambda d: dist.Normal(t(d, -1.0, 4.0), t(d, 0.5, 2.0)),
    "laplace": lambda d: dist.Laplace(t(d, 1.0), 2.0),
    "gumbel": lambda d: dist.Gumbel(t(d, 1.0), 2.0),
    "uniform": lambda d: dist.Uniform(t(d, -1.0), 3.0),
    "exponential": lambda d: dist.Exponential(t(d, 0.3, 4.0)),
    "half normal": lambda d: dist.HalfNormal(t(d, 2.0)),
    "log normal": lambda d: dist.LogNormal(t(d, 0.1), 0.3),
    "gamma": lambda d: dist.Gamma(t(d, 0.05, 0.7, 1.0, 3.0, 200.0), 2.0),
    "chi2": lambda d: dist.Chi2(t(d, 3.0)),
    "inverse gamma": lambda d: dist.InverseGamma(t(d, 9.0), 2.0),
    "beta": lambda d: dist.Beta(t(d, 0.2, 2.0), t(d, 0.5, 3.0)),
    "dirichlet": lambda d: dist.Dirichlet(t(d, 0.5, 1.0, 6.0)),
    "student": lambda d: dist.StudentT(t(d, 9.0), 1.0, 2.0),
    "fisher": lambda d: dist.FisherSnedecor(t(d, 9.0), 20.0),
    "bernoulli": lambda d: dist.Bernoulli(t(d, 0.1, 0.7)),
    "geometric": lambda d: dist.Geometric(t(d, 0.1, 0.7)),
    "binomial": lambda d: dist.Binomial(9, t(d, 0.1, 0.7)),
    "negative binomial": lambda d: dist.NegativeBinomial(t(d, 3.0), t(d, 0.4)),
    "poisson": lambda d: dist.Poisson(t(d, 0.0, 0.5, 9.0, 11.0, 300.0)),
    "one hot": lambda d: dist.OneHotCategorical(t(d, 0.2, 0.5, 0.3)),
    "multinomial": lambda d: dist.Multinomial(5, t(d, 0.2, 0.5, 0.3)),
    "multivariate": lambda d: dist.MultivariateNormal(
        t(d, 1.0, -2.0), scale_tril=rl.tensor([[1.0, 0.0], [0.8, 0.6]], device=d)
    ),
    "weibull": lambda d: dist.Weibull(t(d, 0.5, 2.0), t(d, 0.9, 3.0)),
    "kumaraswamy": lambda d: dist.Kumaraswamy(t(d, 0.7, 2.0), t(d, 1.5, 3.0)),
    "generalized pareto": lambda d: dist.GeneralizedPareto(
        t(d, 1.0, -1.0, 0.0), 2.0, t(d, -0.4, 0.0, 0.1)
    ),
    "continuous bernoulli": lambda d: dist.ContinuousBernoulli(t(d, 0.05, 0.5, 0.8)),
    "low rank": lambda d: dist.LowRankMultivariateNormal(
        t(d, 1.0, -2.0), t(d, 0.7, -0.4)[:, None], t(d, 0.3, 1.5)
    ),
    "independent": lambda d: dist.Independent(dist.Normal(t(d, 1.0, 2.0), 1.0), 1),
    "mixture": lambda d: dist.MixtureSameFamily(
        dist.Categorical(t(d, 0.3, 0.7)), dist.Normal(t(d, -2.0, 3.0), t(d, 1.0, 0.5))
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_draws_have_their_moments(device: str, name: str) -> None:
    rl.manual_seed(7)
    d, count = MAKERS[name](device), 8000
    x = d.sample((count,))
    assert x.shape == (count, *d.batch_shape, *d.event_shape)
    assert not x.requires_grad
    values = x.cpu().numpy().astype(np.float64)
    mean, variance = (v.cpu().numpy().astype(np.float64) for v in (d.mean, d.variance))
    fourth = ((values - mean) ** 4).mean(0)
    bound = 5 * np.sqrt(variance / count) + 1e-6
    assert (np.abs(values.mean(0) - mean) <= bound).all(), (values.mean(0), mean)
    bound = 6 * np.sqrt(np.maximum(fourth - variance**2, 0) / count) + 1e-5 * (1 + variance)
    found = ((values - mean) ** 2).mean(0)
    assert (np.abs(found - variance) <= bound).all(), (found, variance)
    assert (
        np.isfinite(d.log_prob(x[:50]).cpu().numpy()).all()
        if name not in ("multivariate", "low rank")
        else True
    )


def test_draws_of_angles_and_matrices() -> None:
    rl.manual_seed(11)
    angles = dist.VonMises(rl.tensor([-3.0, 0.0, 2.0]), rl.tensor([0.01, 2.0, 400.0]))
    x = angles.sample((20000,))
    assert x.abs().max() <= 3.14160
    length = 1 - angles.variance.numpy()
    for trig in (rl.cos, rl.sin):  # the mean direction is loc
        mean = trig(x).mean(0).numpy()
        assert mean == pytest.approx(length * trig(angles.loc).numpy(), abs=0.02)
    scale = rl.tensor([[2.0, 0.6], [0.6, 1.0]])
    wishart = dist.Wishart(3.5, scale)
    x = wishart.sample((8000,))
    bound = 5 * (wishart.variance / 8000).sqrt()
    assert ((x.mean(0) - wishart.mean).abs() < bound).all()
    assert wishart.log_prob(x).isfinite().all()
    c = rl.tensor([0.7, 4.0])
    x = dist.LKJCholesky(3, c).sample((20000,))
    correlations = (x @ x.mT)[..., [1, 2, 2], [0, 0, 1]]
    expected = (1 / (2 * c + 2))[:, None].expand(2, 3)  # twice a Beta(c + 1/2, c + 1/2), less 1
    assert correlations.square().mean(0).numpy() == pytest.approx(expected.numpy(), rel=0.05)
    assert dist.LKJCholesky(3, c).support.check(x).all()


def test_cauchy_draws_have_their_quartiles(device: str) -> None:
    rl.manual_seed(3)
    for d, quartiles in (
        (dist.Cauchy(t(device, 1.0), 2.0), (-1.0, 1.0, 3.0)),
        (dist.HalfCauchy(t(device, 2.0)), (0.8284, 2.0, 4.8284)),
    ):
        values = d.sample((20000,)).cpu().numpy()
        found = np.quantile(values, (0.25, 0.5, 0.75))
        np.testing.assert_allclose(found, quartiles, atol=0.15)


# Shape, draw, and d(draw) / d(shape) = -(dF / da) / f, from 40 digits of the incomplete gamma
# function (mpmath). torch's own formula is off by up to 7e-4.
SLOPES = (
    (0.01, 1.63578065, 69.97724475714222),
    (0.1, 3.33803218, 9.682846102981019),
    (0.5, 5.28428411, 3.494659602813699),
    (1.0, 0.70125896, 0.9741657973270892),
    (2.5, 10.50417, 2.00788736545),
    (7.0, 6.673735, 0.9998639572437465),
    (300.0, 322.69, 1.0374739138264895),
    (20000.0, 20437.67, 1.010871220785),
)


def test_a_gamma_draw_has_the_gradient_of_its_distribution(device: str) -> None:
    a, x, slope = np.array(SLOPES).T
    at = rl.tensor(a.astype(np.float32), device=device)
    found = _log_slope(at, rl.tensor(np.log(x).astype(np.float32), device=device))
    np.testing.assert_allclose(found.cpu().numpy() * x, slope, rtol=2e-5)


@pytest.mark.parametrize("name", ["gamma", "beta", "dirichlet", "student", "log normal"])
def test_the_mean_of_draws_has_the_gradient_of_the_mean(device: str, name: str) -> None:
    rl.manual_seed(11)
    make: dict[str, Any] = {
        "gamma": (lambda a, b: dist.Gamma(a, b), (0.7, 3.0), (2.0, 0.5)),
        "beta": (lambda a, b: dist.Beta(a, b), (0.7, 3.0), (2.0, 0.5)),
        "dirichlet": (lambda a, b: dist.Dirichlet(rl.stack([a, b], -1)), (0.7, 3.0), (2.0, 0.5)),
        "student": (lambda a, b: dist.StudentT(9.0, a, b), (0.7, 3.0), (2.0, 0.5)),
        "log normal": (lambda a, b: dist.LogNormal(a, b), (0.1, 0.2), (0.3, 0.2)),
    }
    fn, first, second = make[name]
    a, b = (rl.tensor(list(v), device=device, requires_grad=True) for v in (first, second))
    weights = rl.tensor([[1.0], [-0.5]], device=device)
    d = fn(a, b)
    draws = d.rsample((3000,))
    mean = d.mean
    if name == "dirichlet":
        draws, mean = draws * weights, mean * weights
    found = rl.autograd.grad(draws.mean(0).sum(), (a, b), allow_unused=True)
    wanted = rl.autograd.grad(mean.sum(), (a, b), allow_unused=True, materialize_grads=True)
    for x, y in zip(found, wanted, strict=True):
        assert x is not None and y is not None
        np.testing.assert_allclose(x.cpu().numpy(), y.cpu().numpy(), rtol=0.15, atol=0.08)


def test_a_gradient_of_a_gamma_draw_has_a_gradient() -> None:
    a = rl.tensor([0.4, 2.0, 30.0], dtype=rl.float64, requires_grad=True)
    rl.manual_seed(5)
    z = log_gamma_draw(a, (3,))
    (slope,) = rl.autograd.grad(z.sum(), a, create_graph=True)
    assert slope is not None
    (second,) = rl.autograd.grad(slope.sum(), a)
    assert second is not None
    z, slope, step = z.detach(), slope.detach(), 1e-4  # along a, a draw moves by its slope
    up, down = (_log_slope(a.detach() + s, z + s * slope).numpy() for s in (step, -step))
    np.testing.assert_allclose(second.numpy(), (up - down) / (2 * step), rtol=1e-5)


def test_the_module_is_found_under_its_short_name() -> None:
    assert importlib.import_module("rushlight.distributions") is rl.distributions is dist
    assert importlib.import_module("rushlight.distributions.transforms") is dist.transforms


def test_one_seed_gives_the_same_draws() -> None:
    draws = []
    for _ in range(2):
        rl.manual_seed(1)
        draws.append(dist.Gamma(rl.tensor([0.5, 2.0]), 1.0).sample((3,)).tolist())
    assert draws[0] == draws[1]


def test_captured_functions_draw_anew_and_check_nothing(device: str) -> None:
    @rl.jit
    def step(loc: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        d = dist.Normal(loc, loc.exp())
        x = d.rsample((2,))
        return x, d.log_prob(x)

    loc = t(device, 0.5, -0.5)
    found = [[part.tolist() for part in step(loc)] for _ in range(3)]
    assert found[0] != found[1] != found[2]
    d = dist.Normal(loc, loc.exp())
    wanted = d.log_prob(rl.tensor(found[2][0], device=device)).cpu().numpy()
    np.testing.assert_allclose(found[2][1], wanted, rtol=1e-5)


def test_a_pair_of_classes_can_be_registered() -> None:
    class Mine(dist.Normal):
        """A subclass, nearer than its parent."""

    @dist.register_kl(Mine, dist.Normal)
    def _mine(p: Mine, q: dist.Normal) -> rl.Tensor:
        return rl.full((), 7.0)

    one, two = Mine(0.0, 1.0), dist.Normal(0.0, 1.0)
    assert dist.kl_divergence(one, two).item() == 7
    assert dist.kl_divergence(one, one).item() == 7
    assert abs(dist.kl_divergence(two, one).item()) < 1e-6
    with pytest.raises(TypeError, match="subclass of Distribution"):
        dist.register_kl(int, dist.Normal)


def test_checks_can_be_switched_off() -> None:
    assert dist.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    dist.Distribution.set_default_validate_args(False)
    try:
        dist.Normal(0.0, -1.0)
    finally:
        dist.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match=r"scale of shape \(\) must be greater than 0.0"):
        dist.Normal(0.0, -1.0)


def test_what_is_checked_is_named() -> None:
    good = rl.tensor([[2.0, 0.5], [0.5, 1.0]])
    sets = dist.constraints
    assert sets.positive_definite.check(good).item()
    assert not sets.positive_definite.check(-good).item()
    assert not sets.lower_cholesky.check(good).item()
    assert sets.one_hot.check(rl.tensor([[0.0, 1.0], [1.0, 1.0]])).tolist() == [True, False]
    assert sets.independent(sets.positive, 1).check(good).tolist() == [True, True]
    assert sets.integer_interval(0, 2).check(rl.tensor([0.0, 1.5, 3.0])).tolist() == [
        True,
        False,
        False,
    ]
    assert repr(sets.half_open_interval(0, 1)) == "from 0 to below 1"
    assert sets.less_than(1.0).check(rl.tensor(0.0)).item()


def test_distributions_within_vmap(device: str) -> None:
    rl.manual_seed(4)
    a = t(device, 0.5, 2.0, 9.0)

    def mean(a: rl.Tensor) -> rl.Tensor:
        return dist.Gamma(a, 2.0).rsample((300,)).mean()

    slopes = rl.vmap(rl.func.grad(mean), randomness="different")(a)
    around = rl.func.grad(lambda a: rl.vmap(mean, randomness="different")(a).sum())(a)
    for found in (slopes, around):
        np.testing.assert_allclose(found.cpu().numpy(), 0.5, atol=0.15)
    draws = rl.vmap(lambda a: dist.Poisson(a).sample((50,)), randomness="different")(a)
    assert draws.shape == (3, 50)
    log = rl.vmap(lambda a, x: dist.Poisson(a).log_prob(x))(a, draws)
    wanted = dist.Poisson(a.unsqueeze(1)).log_prob(draws)
    np.testing.assert_allclose(log.cpu().numpy(), wanted.cpu().numpy(), rtol=1e-5)
