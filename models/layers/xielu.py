"""xIELU (Huang and Schlag, 2024): an activation with two learned slopes, as a module."""

from __future__ import annotations

from rushlight.core import nn, ops
from rushlight.core.functional.network.activations import softplus
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor


class XIELU(nn.Module):
    """a x^2 + beta x above zero, b (expm1(min(x, eps)) - x) + beta x below.

    a is softplus(alpha_p), and b is beta + softplus(alpha_n).
    """

    beta: Tensor
    eps: Tensor

    def __init__(self) -> None:
        self.alpha_p, self.alpha_n = parameter(1), parameter(1)
        self.register_buffer("beta", tensor(0.5))
        self.register_buffer("eps", tensor(-1e-6))
        self._fill()

    def reset_parameters(self) -> None:
        """The slopes that training begins with: 0.8 on both sides."""
        nn.init.constant_(self.alpha_p, 0.2035)
        nn.init.constant_(self.alpha_n, -1.0502)

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> the same."""
        above, below = softplus(self.alpha_p), self.beta + softplus(self.alpha_n)
        shut = (ops.expm1(ops.minimum(x, self.eps)) - x) * below
        out: Tensor = ops.where(x > 0, above * x * x, shut) + self.beta * x
        return out
