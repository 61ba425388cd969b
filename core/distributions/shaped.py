"""Transforms of shapes and of parts of a value, and those between matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.limits import finfo
from rushlight.core.distributions import constraints
from rushlight.core.distributions.constraints import Constraint
from rushlight.core.distributions.transform import Transform, sum_rightmost
from rushlight.core.functional import declared as f
from rushlight.core.functional.linalg.factorizations import cholesky
from rushlight.core.nn import functional as nn
from rushlight.core.ops.unary import tanh
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.distributions.distribution import Distribution


class ReshapeTransform(Transform):
    """The last dims of shape `in_shape` as `out_shape`, with the same elements in order.

    Both are sizes, `cache_size` changes nothing. Raises ShapeError where they hold different
    numbers of elements, or a value does not end in them.
    """

    _sign = 1

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ShapeError(
                f"ReshapeTransform: in_shape {self.in_shape} and out_shape {self.out_shape} "
                "must hold the same number of elements"
            )
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _turned(
        self, shape: Sequence[int], old: tuple[int, ...], new: tuple[int, ...]
    ) -> tuple[int, ...]:
        batch = len(shape) - len(old)
        if batch < 0 or tuple(shape[batch:]) != old:
            raise ShapeError(f"ReshapeTransform: shape {tuple(shape)} does not end in {old}")
        return (*shape[:batch], *new)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0: nothing is stretched."""
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what comes out."""
        return self._turned(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what goes in."""
        return self._turned(shape, self.out_shape, self.in_shape)


def _joined_constraint(
    parts: Sequence[Constraint], dim: int, lengths: Sequence[int] | None
) -> Constraint:
    def check(x: Tensor) -> Tensor:
        if lengths is None:
            return f.stack([c.check(v) for c, v in zip(parts, x.unbind(dim), strict=True)], dim)
        pieces = zip(parts, x.split(list(lengths), dim), strict=True)
        return f.cat([c.check(v) for c, v in pieces], dim)

    name = " or ".join(dict.fromkeys(c.name for c in parts))
    event = max(c.event_dim for c in parts)
    return Constraint(name, check, event, any(c.is_discrete for c in parts))


class _Several(Transform):
    """Transforms side by side along `dim`: each of its piece of a value."""

    transforms: list[Transform]
    dim: int
    join: Any  # (pieces, dim) -> a value

    def _pieces(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._pieces(x), strict=True)
        joined: Tensor = self.join([t(piece) for t, piece in pairs], self.dim)
        return joined

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._pieces(y), strict=True)
        joined: Tensor = self.join([t.inv(piece) for t, piece in pairs], self.dim)
        return joined


class CatTransform(_Several):
    """One transform for each piece of `lengths` elements along `dim`.

    `tseq` are the transforms; a piece has one element unless `lengths` says so. `cache_size`
    changes nothing. Raises ShapeError for another number of lengths, or of elements in a value.
    """

    join = staticmethod(f.cat)

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ShapeError(
                f"CatTransform: {len(self.lengths)} lengths for {len(self.transforms)} transforms"
            )
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = _joined_constraint([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = _joined_constraint([t.codomain for t in self.transforms], dim, self.lengths)

    @property
    def length(self) -> int:
        """The elements along `dim`."""
        return sum(self.lengths)

    def _pieces(self, x: Tensor) -> Sequence[Tensor]:
        if x.shape[self.dim] != self.length:
            raise ShapeError(
                f"CatTransform: shape {x.shape} has {x.shape[self.dim]} elements along dim "
                f"{self.dim}; the lengths {self.lengths} sum to {self.length}"
            )
        return x.split(self.lengths, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Each transform's of its piece."""
        event = max(t.domain_event_dim for t in self.transforms)
        parts = []
        for t, a, b in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            rest = event - t.domain_event_dim
            parts.append(sum_rightmost(t.log_abs_det_jacobian(a, b), rest))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += event
        return f.cat(parts, dim) if dim < 0 else sum(parts[1:], parts[0])


class StackTransform(_Several):
    """One transform for each element along `dim`.

    `tseq` are the transforms. `cache_size` changes nothing. Raises ShapeError where a value has
    another number of elements there.
    """

    join = staticmethod(f.stack)

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = _joined_constraint([t.domain for t in self.transforms], dim, None)
        self.codomain = _joined_constraint([t.codomain for t in self.transforms], dim, None)

    def _pieces(self, x: Tensor) -> Sequence[Tensor]:
        if x.shape[self.dim] != len(self.transforms):
            raise ShapeError(
                f"StackTransform: shape {x.shape} has {x.shape[self.dim]} elements along dim "
                f"{self.dim}; there are {len(self.transforms)} transforms"
            )
        return x.unbind(self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Each transform's of its slice."""
        rows = zip(self.transforms, self._pieces(x), self._pieces(y), strict=True)
        return f.stack([t.log_abs_det_jacobian(a, b) for t, a, b in rows], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a `distribution`; the inverse is its quantile. `cache_size` changes nothing."""

    codomain = constraints.unit_interval
    _sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        self.distribution, self.domain = distribution, distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The distribution's log_prob at x."""
        return self.distribution.log_prob(x)


class CorrCholeskyTransform(Transform):
    """Vectors of d (d - 1) / 2 numbers to Cholesky factors of correlation matrices of d rows.

    tanh of a number is the share of what is left of its row (Stan's reference manual, "Cholesky
    factors of correlation matrices").
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        rows = round((1 + math.sqrt(1 + 8 * x.shape[-1])) / 2)
        if rows * (rows - 1) // 2 != x.shape[-1]:
            raise ShapeError(
                f"CorrCholeskyTransform: the last dim of shape {x.shape} is no d (d - 1) / 2"
            )
        eps = finfo(x.dtype).eps
        row, column = f.tril_indices(rows, rows, -1)
        shares = x.new_zeros((*x.shape[:-1], rows, rows))
        shares[..., row, column] = tanh(x).clamp(-1 + eps, 1 - eps)
        left = (1 - shares.square()).sqrt().cumprod(-1)
        shares = shares + f.eye(rows, dtype=x.dtype, device=x.device)
        return shares * nn.pad(left[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = nn.pad((1 - y.square().cumsum(-1))[..., :-1], (1, 0), value=1)
        row, column = f.tril_indices(y.shape[-1], y.shape[-1], -1)
        share = y[..., row, column] / left[..., row, column].sqrt()
        return (f.log1p(share) - f.log1p(-share)) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Of what is left of each row before a number, and of tanh."""
        left = 1 - y.square().cumsum(-1)
        row, column = f.tril_indices(y.shape[-1], y.shape[-1], -2)
        of_rows = left[..., row, column].log().sum(-1) / 2
        return of_rows - 2 * (x + nn.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what comes out."""
        rows = round((1 + math.sqrt(1 + 8 * shape[-1])) / 2)
        return (*shape[:-1], rows, rows)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what goes in."""
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite ones: a lower triangle with exp on it, times its own."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = x.tril(-1) + f.diag_embed(x.diagonal(0, -2, -1).exp())
        product: Tensor = lower @ lower.mT
        return product

    def _inverse(self, y: Tensor) -> Tensor:
        lower = cholesky(y)
        return lower.tril(-1) + f.diag_embed(lower.diagonal(0, -2, -1).log())
