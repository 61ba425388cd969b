"""Types of rushlight.distributions. Written by tools/stubs.py (`make format`)."""

from rushlight.core.distributions import (
    constraint_registry as constraint_registry, constraints as constraints, kl as kl, transforms as
    transforms
)
from rushlight.core.distributions.bounded import (
    ContinuousBernoulli as ContinuousBernoulli, GeneralizedPareto as GeneralizedPareto, Kumaraswamy
    as Kumaraswamy, VonMises as VonMises, Weibull as Weibull
)
from rushlight.core.distributions.categorical import (
    Categorical as Categorical, Multinomial as Multinomial, OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
)
from rushlight.core.distributions.composed import (
    Independent as Independent, LogNormal as LogNormal, LogisticNormal as LogisticNormal,
    MixtureSameFamily as MixtureSameFamily, Pareto as Pareto, TransformedDistribution as
    TransformedDistribution
)
from rushlight.core.distributions.constraint_registry import (
    biject_to as biject_to, transform_to as transform_to
)
from rushlight.core.distributions.continuous import (
    Cauchy as Cauchy, Exponential as Exponential, Gumbel as Gumbel, HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal, Laplace as Laplace, Normal as Normal, Uniform as Uniform
)
from rushlight.core.distributions.discrete import (
    Bernoulli as Bernoulli, Binomial as Binomial, Geometric as Geometric, NegativeBinomial as
    NegativeBinomial, Poisson as Poisson
)
from rushlight.core.distributions.distribution import (
    Distribution as Distribution
)
from rushlight.core.distributions.gamma import (
    Beta as Beta, Chi2 as Chi2, Dirichlet as Dirichlet, FisherSnedecor as FisherSnedecor, Gamma as
    Gamma, InverseGamma as InverseGamma, StudentT as StudentT
)
from rushlight.core.distributions.kl import (
    kl_divergence as kl_divergence, register_kl as register_kl
)
from rushlight.core.distributions.matrices import (
    LKJCholesky as LKJCholesky, Wishart as Wishart
)
from rushlight.core.distributions.multivariate import (
    LowRankMultivariateNormal as LowRankMultivariateNormal, MultivariateNormal as MultivariateNormal
)
from rushlight.core.distributions.relaxed import (
    RelaxedBernoulli as RelaxedBernoulli, RelaxedOneHotCategorical as RelaxedOneHotCategorical
)
from rushlight.core.distributions.shaped import (
    CatTransform as CatTransform, CorrCholeskyTransform as CorrCholeskyTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform, PositiveDefiniteTransform as
    PositiveDefiniteTransform, ReshapeTransform as ReshapeTransform, StackTransform as
    StackTransform
)
from rushlight.core.distributions.transform import (
    ComposeTransform as ComposeTransform, IndependentTransform as IndependentTransform, Transform as
    Transform, identity_transform as identity_transform
)
from rushlight.core.distributions.transforms import (
    AbsTransform as AbsTransform, AffineTransform as AffineTransform, ExpTransform as ExpTransform,
    LowerCholeskyTransform as LowerCholeskyTransform, PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform, SoftmaxTransform as SoftmaxTransform, SoftplusTransform as
    SoftplusTransform, StickBreakingTransform as StickBreakingTransform, TanhTransform as
    TanhTransform
)
