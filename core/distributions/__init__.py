"""Distributions of random numbers, under the names of torch.distributions."""

from rushlight.core.distributions import constraint_registry, constraints, kl, transforms
from rushlight.core.distributions.bounded import (
    ContinuousBernoulli,
    GeneralizedPareto,
    Kumaraswamy,
    VonMises,
    Weibull,
)
from rushlight.core.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from rushlight.core.distributions.composed import (
    Independent,
    LogisticNormal,
    LogNormal,
    MixtureSameFamily,
    Pareto,
    TransformedDistribution,
)
from rushlight.core.distributions.constraint_registry import biject_to, transform_to
from rushlight.core.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from rushlight.core.distributions.discrete import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from rushlight.core.distributions.distribution import Distribution
from rushlight.core.distributions.gamma import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from rushlight.core.distributions.kl import kl_divergence, register_kl
from rushlight.core.distributions.matrices import LKJCholesky, Wishart
from rushlight.core.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
)
from rushlight.core.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from rushlight.core.distributions.transforms import *  # noqa: F403
from rushlight.core.distributions.transforms import __all__ as _transforms

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
    "ContinuousBernoulli", "Dirichlet", "Distribution",
    "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy",
    "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution", "Uniform",
    "VonMises", "Weibull", "Wishart", "biject_to", "constraint_registry", "constraints", "kl",
    "kl_divergence", "register_kl", "transform_to", "transforms", *_transforms,
]  # fmt: skip
