"""Kullback and Leibler's divergence of two distributions, by a table of pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from rushlight.core.distributions.bounded import ContinuousBernoulli
from rushlight.core.distributions.categorical import Categorical, OneHotCategorical
from rushlight.core.distributions.composed import Independent, TransformedDistribution
from rushlight.core.distributions.continuous import (
    EULER,
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from rushlight.core.distributions.discrete import Bernoulli, Binomial, Geometric, Poisson
from rushlight.core.distributions.distribution import Distribution
from rushlight.core.distributions.gamma import Beta, Dirichlet, Gamma
from rushlight.core.distributions.matrices import Wishart, mvdigamma
from rushlight.core.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    whitened,
)
from rushlight.core.distributions.transform import sum_rightmost
from rushlight.core.functional import declared as f
from rushlight.core.functional.special.gamma import mvlgamma
from rushlight.core.nn import functional as nn
from rushlight.core.ops.unary import erf
from rushlight.core.tensor.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]
F = TypeVar("F", bound=Formula)
_PAIRS: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[F], F]:
    """Decorator: the function gives kl_divergence(p, q) for these classes and their subclasses."""
    for cls in (type_p, type_q):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise TypeError(f"register_kl: {cls!r} is not a subclass of Distribution")

    def enter(fn: F) -> F:
        _PAIRS[type_p, type_q] = fn
        return fn

    return enter


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected value under p of log p - log q; shape batch_shape.

    The pair is the nearest registered one, by p's class first. NotImplementedError if none is.
    """
    for mine in type(p).__mro__:
        for theirs in type(q).__mro__:
            if (mine, theirs) in _PAIRS:
                return _PAIRS[mine, theirs](p, q)
    raise NotImplementedError(
        f"kl_divergence of {type(p).__name__} and {type(q).__name__} is not registered; "
        "register_kl does so"
    )


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    away = nn.softplus(-q.logits) - nn.softplus(-p.logits)
    rest = nn.softplus(q.logits) - nn.softplus(p.logits)
    divergence = p.probs * away + (1 - p.probs) * rest
    divergence = f.where((q.probs == 0) & (p.probs > 0), math.inf, divergence)
    return f.where((q.probs == 1) & (p.probs < 1), math.inf, divergence)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    n = p.total_count
    per_draw = p.probs * (p.logits - q.logits) + f.log1p(-p.probs) - f.log1p(-q.probs)
    return f.where(n > q.total_count, math.inf, n * per_draw)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    each = f.where(q.probs == 0, math.inf, each)
    return f.where(p.probs == 0, 0.0, each).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - f.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    scale = f.lgamma(total) - f.lgamma(b.sum(-1)) - (f.lgamma(a) - f.lgamma(b)).sum(-1)
    return scale + ((a - b) * (f.digamma(a) - f.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._both, q._both)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:  # Chyzak and Nielsen, 2019
    top = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return top.log() - f.log(4 * p.scale * q.scale)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    a, b = p.scale / q.scale, (q.loc - p.loc) / q.scale
    divergence = q.scale.log() - p.scale.log() + a * EULER
    return divergence - b + f.exp(b + f.lgamma(1 + a)) - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _to_normal(p._base, q._base)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    a, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -a.log() + away / q.scale + a * f.exp(-away / p.scale) - 1


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away, s = p.loc - q.loc, p.scale
    x = away / s
    mean = s * math.sqrt(2 / math.pi) * f.exp(-0.5 * x.square()) + away * erf(x * math.sqrt(0.5))
    return f.log(2 * q.scale) + mean / q.scale - p.entropy()


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    away = (p.loc - q.loc) / q.scale
    tail = f.exp(0.5 * (p.scale / q.scale).square() - away)
    return q.scale.log() + away + tail - p.entropy()


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: events of {p.event_shape} and {q.event_shape} elements")
    scale = half_log_det(q.scale_tril) - half_log_det(p.scale_tril)
    # The rows of p's factor, whitened by q's, hold the trace.
    rows = p.scale_tril.mT
    trace = whitened(q.scale_tril.unsqueeze(-3), rows).square().sum((-2, -1))
    away = whitened(q.scale_tril, p.loc - q.loc).square().sum(-1)
    divergence: Tensor = scale + 0.5 * (trace + away - p.event_shape[0])
    return divergence


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n, a, b = p.event_shape[0], p.df / 2, q.df / 2
    scale = q.df * (half_log_det(q.scale_tril) - half_log_det(p.scale_tril))
    trace = whitened(q.scale_tril.unsqueeze(-3), p.scale_tril.mT).square().sum((-2, -1))
    rest = mvlgamma(b, n) - mvlgamma(a, n) + (a - b) * mvdigamma(a, n)
    return scale + a * (trace - n) + rest


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    low = f.log1p(-p.probs) - f.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + p._log_norm() - q._log_norm() + low


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    divergence = f.log((q.high - q.low) / (p.high - p.low))
    return f.where((q.low > p.low) | (q.high < p.high), math.inf, divergence)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    n = p.high - p.low
    a = (f.xlogy(p.high, p.high) - f.xlogy(p.low, p.low) - n) / n
    x, y = 1 - p.high, 1 - p.low
    b = (f.xlogy(x, x) - f.xlogy(y, y) + n) / n
    scale = (
        f.lgamma(q.concentration1)
        + f.lgamma(q.concentration0)
        - f.lgamma(q.concentration1 + q.concentration0)
    )
    divergence = scale - n.log() - (q.concentration1 - 1) * a + (q.concentration0 - 1) * b
    return f.where((p.high > 1) | (p.low < 0), math.inf, divergence)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of two Independent needs equal dims of events")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if list(map(repr, p.transforms)) != list(map(repr, q.transforms)):
        raise NotImplementedError("kl_divergence of variables that are transformed differently")
    return kl_divergence(p.base_dist, q.base_dist)


# Pairs of which only moments of p are needed: -entropy(p) - E[log q]. One that lies in part
# outside q's support is infinitely far.


def _to_normal(p: Any, q: Any) -> Tensor:
    square = q.scale.square()
    away = (p.variance + (p.mean - q.loc).square()) / (2 * square)
    divergence: Tensor = -p.entropy() + 0.5 * f.log(2 * math.pi * square) + away
    return divergence


def _inside(p: Any, found: Tensor) -> Tensor:
    return f.where(p.low < 0, math.inf, found) if isinstance(p, Uniform) else found


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return _inside(p, -p.entropy() - q.rate.log() + q.rate * p.mean)


def _mean_log(p: Any) -> Tensor:
    if isinstance(p, Beta):
        return f.digamma(p.concentration1) - f.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Gamma):
        return f.digamma(p.concentration) - p.rate.log()
    if isinstance(p, Uniform):
        n = p.high - p.low
        return (f.xlogy(p.high, p.high) - f.xlogy(p.low, p.low) - n) / n
    mean_log: Tensor = -EULER - p.rate.log()
    return mean_log


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    log = (a - 1) * _mean_log(p) - q.rate * p.mean + a * q.rate.log() - f.lgamma(a)
    return _inside(p, -p.entropy() - log)


def _to_uniform(p: Beta, q: Uniform) -> Tensor:
    divergence = -p.entropy() + f.log(q.high - q.low)
    return f.where((q.low > 0) | (q.high < 1), math.inf, divergence)


def _infinite(p: Any, q: Any) -> Tensor:
    return f.full_like(p.mean + q.mean, math.inf)


_TABLE: list[tuple[Formula, tuple[type, ...], tuple[type, ...]]] = [
    (_to_normal, (Normal, Beta, Exponential, Gamma, Gumbel, Laplace, Uniform), (Normal,)),
    (_to_exponential, (Exponential, Beta, Gamma, Uniform), (Exponential,)),
    (_to_gamma, (Exponential, Beta, Gamma, Uniform), (Gamma,)),
    (_to_uniform, (Beta,), (Uniform,)),
    (_infinite, (Normal, Laplace, Gumbel), (Beta, Exponential, Gamma, Uniform)),
    (_infinite, (Exponential, Gamma), (Beta, Uniform)),
    (_infinite, (Poisson,), (Bernoulli, Binomial)),
]
for _formula, _of, _from in _TABLE:
    for _p in _of:
        for _q in _from:
            register_kl(_p, _q)(_formula)
