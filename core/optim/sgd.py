"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.optim.optimizer import Optimizer, Params, positive, undifferentiated
from rushlight.core.tensor.tensor import Tensor


class SGD(Optimizer):
    """p -= lr * v, with v = momentum * v + (1 - dampening) * grad.

    This is Polyak's momentum in the form of Sutskever et al. (2013); `nesterov` is their variant.
    weight_decay times the parameter is added to its gradient. As in torch, the first step uses
    v = grad, without dampening.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        undifferentiated("SGD", differentiable)
        super().__init__(
            params,
            {"lr": lr, "momentum": momentum, "dampening": dampening,
             "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize},
        )  # fmt: skip

    def check(self, group: Mapping[str, Any]) -> None:
        """Rates must not be negative; nesterov needs momentum and no dampening."""
        positive("SGD", group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and dampening 0")

    def rates(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """Minus lr, momentum, one minus dampening, weight decay."""
        return -group["lr"], group["momentum"], 1 - group["dampening"], group["weight_decay"]

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Any) -> None:
        """One step; state: momentum_buffer."""
        down, momentum, share, decay = group["rates"]
        grad = -grad if group.get("maximize") else grad
        if group["weight_decay"]:
            grad = grad + param.detach() * decay
        if group["momentum"]:
            velocity = state.get("momentum_buffer")
            if velocity is None:
                velocity = state["momentum_buffer"] = grad.clone()
            else:
                velocity.mul_(momentum).add_(grad * share if group["dampening"] else grad)
            grad = grad + velocity * momentum if group["nesterov"] else velocity
        param.add_(grad * down)
