"""Differentiable maps of random variables, with inverses and Jacobians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.distributions import constraints
from rushlight.core.distributions.shaped import (
    CatTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    StackTransform,
)
from rushlight.core.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    identity_transform,
    sum_rightmost,
)
from rushlight.core.functional import declared as f
from rushlight.core.nn import functional as nn
from rushlight.core.ops.unary import sigmoid, tanh
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "ExpTransform",
    "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform",
    "Transform", "identity_transform",
]  # fmt: skip


class ExpTransform(Transform):
    """y = exp(x)."""

    codomain = constraints.positive
    _sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x."""
        return x


class PowerTransform(Transform):
    """y = x ** exponent."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        self.exponent = exponent if isinstance(exponent, Tensor) else f.full((), exponent)

    @property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape, broadcast with the exponent's."""
        return broadcast_shapes("PowerTransform", tuple(shape), self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)), kept within (0, 1)."""

    codomain = constraints.unit_interval
    _sign = 1

    def _call(self, x: Tensor) -> Tensor:
        eps = 2.0**-23
        return sigmoid(x).clamp(min=1e-38, max=1 - eps)

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(min=1e-38, max=1 - 2.0**-23)
        return y.log() - f.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x) - softplus(x)."""
        return -nn.softplus(-x) - nn.softplus(x)


class TanhTransform(Transform):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)
    _sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return tanh(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return f.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - tanh(x)^2) without cancellation."""
        return 2 * (math.log(2) - x - nn.softplus(-2 * x))


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive
    _sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return nn.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return f.log(-f.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-softplus(-x)."""
        return -nn.softplus(-x)


class AffineTransform(Transform):
    """y = loc + scale x; event_dim: how many last dims are one event.

    `cache_size` changes nothing. It raises nothing of its own.
    """

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        s = self.scale
        return s.sign() if isinstance(s, Tensor) else (s > 0) - (s < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|, summed over the event."""
        s = self.scale
        log_scale = s.abs().log() if isinstance(s, Tensor) else f.full_like(x, math.log(abs(s)))
        return sum_rightmost(log_scale.expand(*x.shape), self.domain_event_dim)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape, broadcast with the parameters'."""
        parts = [v.shape for v in (self.loc, self.scale) if isinstance(v, Tensor)]
        return broadcast_shapes("AffineTransform", tuple(shape), *parts)

    inverse_shape = forward_shape


class AbsTransform(Transform):
    """y = |x|; the inverse is the positive one."""

    bijective = False
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(Transform):
    """Vectors to the simplex by softmax; the inverse is the logarithm."""

    bijective = False
    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return f.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors of n numbers to the simplex of n + 1: each breaks its share off the rest."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        return f.log(f.arange(n, 0, -1, dtype=x.dtype, device=x.device))

    def _call(self, x: Tensor) -> Tensor:
        z = sigmoid(x - self._offset(x)).clamp(min=1e-38, max=1 - 2.0**-23)
        left = (1 - z).cumprod(-1)
        return nn.pad(z, (0, 1), value=1) * nn.pad(left, (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        left = (1 - shares.cumsum(-1)).clamp(min=1e-38)
        return shares.log() - left.log() + self._offset(shares)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Over the event."""
        x = x - self._offset(x)
        return (-x + nn.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One element more."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One element less."""
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangles with a positive diagonal, by exp."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + f.diag_embed(x.diagonal(0, -2, -1).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + f.diag_embed(y.diagonal(0, -2, -1).log())
