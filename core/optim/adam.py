"""Adam, and RMSprop, with weight decay added to the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.jit import capture
from rushlight.core.optim.adamw import AdamW
from rushlight.core.optim.optimizer import Optimizer, Params, positive, undifferentiated
from rushlight.core.tensor.tensor import Tensor


class Adam(AdamW):
    """Adam (Kingma and Ba, 2014): `AdamW` with weight_decay times the parameter in the gradient.

    decoupled_weight_decay makes it AdamW.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        self._decoupled = decoupled_weight_decay
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize,
                         differentiable=differentiable)  # fmt: skip

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """Those of AdamW, with the weight decay in the place of the parameter's factor."""
        found = super().rates(state, group)
        return found if self._decoupled else (group["weight_decay"], *found[1:])

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """One step; state: step, exp_avg, exp_avg_sq."""
        if self._decoupled:
            super().update(param, grad, state, group)
            return
        grad = -grad if group.get("maximize") else grad
        if group["weight_decay"]:
            grad = grad + param.detach() * group["rates"][0]
        super().update(param, grad, state, {**group, "weight_decay": 0, "maximize": False})


class RMSprop(Optimizer):
    """p -= lr * grad / (sqrt(v) + eps), v the running mean of the gradient's square (Hinton, 2012).

    alpha is the rate of v. centered subtracts the square of the gradient's running mean from v.
    momentum sums the quotients. weight_decay times the parameter is added to its gradient.
    """

    def __init__(  # noqa: PLR0913
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        undifferentiated("RMSprop", differentiable)
        super().__init__(
            params,
            {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay,
             "momentum": momentum, "centered": centered, "maximize": maximize},
        )  # fmt: skip

    def check(self, group: Mapping[str, Any]) -> None:
        """Rates must not be negative."""
        positive("RMSprop", group, "lr", "alpha", "eps", "weight_decay", "momentum")

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """Minus lr, alpha, one minus alpha, eps, weight decay, momentum."""
        return (-group["lr"], group["alpha"], 1 - group["alpha"], group["eps"],
                group["weight_decay"], group["momentum"])  # fmt: skip

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """One step; state: square_avg, and grad_avg, momentum_buffer where they are used."""
        down, alpha, share, eps, decay, momentum = group["rates"]
        used = ["square_avg"] + ["grad_avg"] * bool(group["centered"])
        used += ["momentum_buffer"] * bool(group["momentum"])
        with capture.tracing(None):  # a captured step uses the same tensor in each run
            for name in used:
                if name not in state:
                    state[name] = param.zeros_like()
        grad = -grad if group.get("maximize") else grad
        if group["weight_decay"]:
            grad = grad + param.detach() * decay
        square = state["square_avg"].mul_(alpha).add_(grad * grad * share)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.add_((grad - mean) * share)
            square = square - mean * mean
        step = grad / (square.sqrt() + eps)
        if group["momentum"]:
            step = state["momentum_buffer"].mul_(momentum).add_(step)
        param.add_(step * down)
