"""Distributions of matrices."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.basis.limits import finfo
from rushlight.core.distributions import constraints
from rushlight.core.distributions.distribution import Distribution, Number, Shape, broadcast_all
from rushlight.core.distributions.gamma import Beta, Chi2
from rushlight.core.distributions.multivariate import ByCovariance, half_log_det, whitened
from rushlight.core.functional import declared as f
from rushlight.core.functional.linalg.factorizations import cholesky
from rushlight.core.functional.special.gamma import mvlgamma
from rushlight.core.tensor.tensor import Tensor

__all__ = ["LKJCholesky", "Wishart"]


def mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of `mvlgamma`."""
    return f.digamma(x.unsqueeze(-1) - f.arange(p, dtype=x.dtype, device=x.device) / 2).sum(-1)


class Wishart(ByCovariance):
    """The sum of `df` outer products of normal vectors with the mean zero.

    Their covariance is told by one of covariance_matrix, precision_matrix and scale_tril. df is a
    real number above the vectors' length less one. validate_args: whether parameters and values
    are checked; ValueError for a wrong one.
    """

    has_rsample = True
    arg_constraints = {**ByCovariance.arg_constraints, "df": constraints.dependent}
    support = constraints.positive_definite

    def __init__(
        self,
        df: Number,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._told(covariance_matrix, precision_matrix, scale_tril)
        n = matrix.shape[-1]
        df_tensor = df if isinstance(df, Tensor) else matrix.new_tensor(float(df))
        batch = broadcast_shapes("Wishart", matrix.shape[:-2], df_tensor.shape)
        self.df, self._check = df_tensor.expand(*batch), validate_args
        if self._checks(self.df) and (self.df <= n - 1).any():
            raise ValueError(f"Wishart: df is {df}; it must be greater than {n - 1}")
        self._take(name, matrix, batch)
        super().__init__(batch, (n, n), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow, by Bartlett's decomposition."""
        shape, n, df = self._shape(sample_shape), self.event_shape[0], self.df
        each = df.unsqueeze(-1) - f.arange(n, dtype=df.dtype, device=df.device)
        diagonal = Chi2(each, False).rsample(sample_shape).sqrt().clamp(min=finfo(df.dtype).eps)
        noise = f.randn(shape, dtype=df.dtype, device=df.device).tril(-1)
        root = self.scale_tril @ (noise + f.diag_embed(diagonal))
        draws: Tensor = root @ root.mT
        return draws

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        n, half = self.event_shape[0], self.df / 2
        root = cholesky(value)
        trace = whitened(self.scale_tril.unsqueeze(-3), root.mT).square().sum((-2, -1))
        scale = self.df * (half_log_det(self.scale_tril) + n / 2 * math.log(2))
        return (self.df - n - 1) * half_log_det(root) - trace / 2 - scale - mvlgamma(half, n)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        n, half = self.event_shape[0], self.df / 2
        scale = (n + 1) * (half_log_det(self.scale_tril) + n / 2 * math.log(2))
        rest = (self.df - n - 1) / 2 * mvdigamma(half, n)
        return scale + mvlgamma(half, n) - rest + n * half

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The most likely value; nan for df of at most the vectors' length and one."""
        factor = self.df - self.event_shape[0] - 1
        return f.where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        v = self.covariance_matrix
        diagonal = v.diagonal(0, -2, -1)
        square = v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * square


class LKJCholesky(Distribution):
    """Lower Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009).

    A matrix of dim rows has density in proportion to its determinant to the power of
    concentration - 1. validate_args: whether parameters and values are checked; ValueError for a
    wrong one, and for a dim below 2.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Number = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"LKJCholesky: dim is {dim}; it must be at least 2")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws, row after row by the onion method."""
        c, shape = self.concentration.detach(), self._shape(sample_shape)
        place = f.arange(self.dim, dtype=c.dtype, device=c.device)
        half = ((place - 1).clamp(min=0)) / 2  # the first row's draw counts for nothing
        beta = Beta(half + 0.5, (c + 0.5 * (self.dim - 2)).unsqueeze(-1) - half, False)
        length = beta.sample(sample_shape).unsqueeze(-1).sqrt()
        way = f.randn(shape, dtype=c.dtype, device=c.device).tril(-1)
        tiny = finfo(c.dtype).tiny
        rows = length * (way / way.norm(dim=-1, keepdim=True).clamp(min=tiny))
        return rows + f.diag_embed((1 - rows.square().sum(-1)).clamp(min=tiny).sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        n, c = self.dim - 1, self.concentration
        place = f.arange(n, dtype=c.dtype, device=c.device)
        order = 2 * (c - 1).unsqueeze(-1) + (n - 1) - place
        log_diagonal = (order * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        a = c + 0.5 * n
        return log_diagonal - (n / 2 * math.log(math.pi) + mvlgamma(a - 0.5, n) - n * f.lgamma(a))

    def rsample(self, sample_shape: Shape = ()) -> Any:
        """NotImplementedError: draws have no gradient."""
        raise self._no("rsample: its draws are not differentiable")
