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

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def half_log_det(tril: Tensor) -> Tensor:
    """Half the log determinant of L L^T."""
    return tril.diagonal(0, -2, -1).log().sum(-1)


def whitened(tril: Tensor, x: Tensor) -> Tensor:
    """L^-1 x for vectors in the last dim of x, broadcast."""
    if tril.ndim == 2:
        rows = x.reshape(-1, x.shape[-1])
        return solve_triangular(tril, rows.t(), upper=False).t().reshape(*x.shape)
    shape = broadcast_shapes("MultivariateNormal", tril.shape[:-1], x.shape)
    expanded = tril.expand(*shape, shape[-1])
    return solve_triangular(expanded, x.expand(*shape).unsqueeze(-1), upper=False).squeeze(-1)


def _tril_of_precision(precision: Tensor) -> Tensor:
    # With P = U U^T for the upper U of the flipped matrix's factor, the covariance's factor
    # is the inverse of U^T.
    upper = cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    eye = f.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(upper, eye.expand(*precision.shape), upper=False)


class ByCovariance(Distribution):
    """Told by one of covariance_matrix, precision_matrix (its inverse) and scale_tril."""

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    scale_tril: Tensor
    covariance_matrix: Tensor
    precision_matrix: Tensor

    def _told(self, *matrices: Tensor | None) -> tuple[str, Tensor]:
        """The name and the value of the one matrix that was given."""
        names = ("covariance_matrix", "precision_matrix", "scale_tril")
        passed = [(n, m) for n, m in zip(names, matrices, strict=True) if m is not None]
        if len(passed) != 1 or passed[0][1].ndim < 2:
            raise ValueError(
                f"{type(self).__name__}: exactly one of {', '.join(names)} must be given, with at "
                "least two dims"
            )
        return passed[0]

    def _take(self, name: str, matrix: Tensor, batch: tuple[int, ...]) -> None:
        vars(self)[name] = matrix.expand(*batch, *matrix.shape[-2:])
        if name != "scale_tril":
            make = cholesky if name == "covariance_matrix" else _tril_of_precision
            self.scale_tril = make(matrix).expand(*batch, *matrix.shape[-2:])

    def __getattr__(self, name: str) -> Any:
        if name == "covariance_matrix" and "scale_tril" in vars(self):
            return self.scale_tril @ self.scale_tril.mT
        if name == "precision_matrix" and "scale_tril" in vars(self):
            tril = self.scale_tril
            eye = f.eye(tril.shape[-1], dtype=tril.dtype, device=tril.device)
            inverse = solve_triangular(tril, eye.expand(*tril.shape), upper=False)
            return inverse.mT @ inverse
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class MultivariateNormal(ByCovariance):
    """The normal distribution of vectors with the mean `loc`.

    Its covariance is told by one of covariance_matrix, precision_matrix (its inverse) and
    scale_tril (its lower Cholesky factor). Devices without linear algebra draw by scale_tril.

    `validate_args`: whether arguments are checked. Raises ValueError for none or several of the
    three, and for parameters outside their sets.
    """

    has_rsample = True
    arg_constraints = {"loc": constraints.real_vector, **ByCovariance.arg_constraints}
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._told(covariance_matrix, precision_matrix, scale_tril)
        if loc.ndim < 1:
            raise ValueError("MultivariateNormal: loc must have at least one dim")
        n = loc.shape[-1]
        batch = broadcast_shapes("MultivariateNormal", matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, n)
        vars(self)[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, (n,), validate_args=validate_args)
        self._take(name, matrix, batch)

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


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors whose covariance is W W^T + D.

    loc: (..., n). cov_factor: W, (..., n, k). cov_diag: the diagonal of D, (..., n), positive. The
    density takes factorizations of k by k matrices only (Woodbury's identity). validate_args:
    whether parameters and values are checked; ValueError for a wrong one, or other shapes.
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        n = loc.shape[-1] if loc.ndim else 0
        if not n or cov_factor.ndim < 2 or cov_factor.shape[-2] != n or cov_diag.shape[-1:] != (n,):
            raise ValueError(
                f"LowRankMultivariateNormal: loc {loc.shape}, cov_factor {cov_factor.shape} and "
                f"cov_diag {cov_diag.shape} must be (..., n), (..., n, k) and (..., n)"
            )
        batch = broadcast_shapes(
            "LowRankMultivariateNormal", loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
        )
        self.loc, self.cov_diag = loc.expand(*batch, n), cov_diag.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        super().__init__(batch, (n,), validate_args)

    def _capacitance(self) -> tuple[Tensor, Tensor]:
        """D^-1 W, and the lower factor of I + W^T D^-1 W."""
        scaled = self.cov_factor / self.cov_diag.unsqueeze(-1)
        inner = self.cov_factor.mT @ scaled
        eye = f.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device)
        return scaled, cholesky(inner + eye)

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
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """W W^T + D."""
        square: Tensor = self.cov_factor @ self.cov_factor.mT
        return square + f.diag_embed(self.cov_diag)

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        scaled, root = self._capacitance()
        whitened_factor = solve_triangular(root, scaled.mT, upper=False)
        inner: Tensor = whitened_factor.mT @ whitened_factor
        return f.diag_embed(self.cov_diag.reciprocal()) - inner

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws through which gradients flow."""
        shape, w = self._shape(sample_shape), self.cov_factor
        inner = f.randn((*shape[:-1], w.shape[-1], 1), dtype=w.dtype, device=w.device)
        noise = f.randn(shape, dtype=w.dtype, device=w.device)
        return self.loc + (w @ inner).squeeze(-1) + self.cov_diag.sqrt() * noise

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        self._validate_sample(value)
        away, (scaled, root) = value - self.loc, self._capacitance()
        inner = (scaled.mT @ away.unsqueeze(-1)).squeeze(-1)
        square = (away.square() / self.cov_diag).sum(-1) - whitened(root, inner).square().sum(-1)
        return -0.5 * (self._log_det(root) + square)

    def _log_det(self, root: Tensor) -> Tensor:
        n = self.event_shape[0]
        log: Tensor = n * math.log(2 * math.pi) + 2 * half_log_det(root)
        return log + self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 0.5 * (self.event_shape[0] + self._log_det(self._capacitance()[1]))
