"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.distributions import constraints
from rushlight.core.distributions.distribution import Distribution, Shape
from rushlight.core.functional import declared as f
from rushlight.core.functional.linalg.factorizations import cholesky
from rushlight.core.functional.linalg.solving import solve_triangular
from rushlight.core.tensor.tensor import Tensor

__all__ = ["MultivariateNormal"]


def half_log_det(tril: Tensor) -> Tensor:
    """Half the log determinant of L L^T."""
    return tril.diagonal(0, -2, -1).log().sum(-1)


def whitened(tril: Tensor, x: Tensor) -> Tensor:
    """L^-1 x for vectors in the last dim of x, broadcast."""
    if tril.ndim == 2:
        rows = x.reshape(-1, x.shape[-1])
        return solve_triangular(tril, rows.t(), upper=False).t().reshape(*x.shape)
    shape = broadcast_shapes("MultivariateNormal", tril.shape[:-1], x.shape)
    whole = tril.expand(*shape, shape[-1])
    return solve_triangular(whole, x.expand(*shape).unsqueeze(-1), upper=False).squeeze(-1)


def _tril_of_precision(precision: Tensor) -> Tensor:
    # With P = U U^T for the upper U of the flipped matrix's factor, the covariance's factor
    # is the inverse of U^T.
    upper = cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    eye = f.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(upper, eye.expand(*precision.shape), upper=False)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors with the mean `loc`.

    Its covariance is told by one of covariance_matrix, precision_matrix (its inverse) and
    scale_tril (its lower Cholesky factor). Devices without linear algebra draw by scale_tril.

    `validate_args`: whether arguments are checked. Raises ValueError for none or several of the
    three, and for parameters outside their sets.
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    scale_tril: Tensor
    covariance_matrix: Tensor
    precision_matrix: Tensor

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
                 "scale_tril": scale_tril}  # fmt: skip
        named = [(name, m) for name, m in given.items() if m is not None]
        if len(named) != 1 or loc.ndim < 1 or named[0][1].ndim < 2:
            raise ValueError(
                "MultivariateNormal: loc must have at least one dim, and exactly one of "
                "covariance_matrix, precision_matrix and scale_tril at least two"
            )
        ((name, matrix),) = named
        n = loc.shape[-1]
        batch = broadcast_shapes("MultivariateNormal", matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, n)
        vars(self)[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, (n,), validate_args=validate_args)
        if name != "scale_tril":
            make = cholesky if name == "covariance_matrix" else _tril_of_precision
            self.scale_tril = make(matrix).expand(*batch, n, n)

    def __getattr__(self, name: str) -> Any:
        if name == "covariance_matrix" and "scale_tril" in vars(self):
            return self.scale_tril @ self.scale_tril.mT
        if name == "precision_matrix" and "scale_tril" in vars(self):
            eye = f.eye(self.loc.shape[-1], dtype=self.loc.dtype, device=self.loc.device)
            inverse = solve_triangular(
                self.scale_tril, eye.expand(*self.scale_tril.shape), upper=False
            )
            return inverse.mT @ inverse
        raise AttributeError(f"MultivariateNormal has no attribute {name!r}")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.scale_tril.square().sum(-1)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        n = f.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ n.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        square = whitened(self.scale_tril, value - self.loc).square().sum(-1)
        n = self.event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + square) - half_log_det(self.scale_tril)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        n = self.event_shape[0]
        return 0.5 * n * (1 + math.log(2 * math.pi)) + half_log_det(self.scale_tril)
