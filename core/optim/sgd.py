"""Stochastic gradient descent with momentum, and with averaging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.optim.optimizer import Params, Start
from rushlight.core.optim.rule import Rule, rounded, zeros
from rushlight.core.tensor.tensor import Tensor


class SGD(Rule):
    """p -= lr * v, with v = momentum * v + (1 - dampening) * grad.

    This is Polyak's momentum in the form of Sutskever et al. (2013); `nesterov` is their variant.
    weight_decay times the parameter is added to its gradient. As in torch, the first step uses
    v = grad, without dampening.

    `maximize`: the objective grows. `params` are tensors, or dicts of them with options of their
    own. Raises ValueError for no parameters, for one that is no leaf or comes twice, and for
    negative options or betas outside [0, 1). ValueError also for nesterov without momentum.
    `foreach` and `fused` change nothing. `differentiable`: gradients go through steps.
    """

    sparse = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, locals())

    def check(self, group: Mapping[str, Any]) -> None:
        """Nesterov needs momentum and no dampening."""
        super().check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and dampening 0")

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """momentum_buffer, with momentum."""
        return {"momentum_buffer": zeros} if group["momentum"] else {}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """Minus lr, momentum, one minus dampening."""
        share = 1 - group["dampening"] if "momentum_buffer" in state else 1.0
        return -group["lr"], group["momentum"], share

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        down, momentum, share = rates
        if group["momentum"]:
            fresh = grad * share if group["dampening"] else grad
            velocity = state["momentum_buffer"].mul_(momentum).add_(fresh)
            grad = grad + velocity * momentum if group["nesterov"] else velocity
        param.add_(grad * down)


class ASGD(Rule):
    """Stochastic gradient descent that also averages the parameters (Polyak and Juditsky, 1992).

    The rate is lr / (1 + lambd * lr * step) ** alpha; lambd is a decay of the parameter. The mean
    of the parameters since step t0 is the state's "ax".

    `weight_decay` times the parameter is added to its gradient. `maximize`: the objective grows.
    `params` are tensors, or dicts of them with options of their own. Raises ValueError for no
    parameters, for one that is no leaf or comes twice, and for negative options or betas outside
    [0, 1). `foreach` and `capturable` change nothing. `differentiable`: gradients go through steps.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, locals())

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, eta and mu (the rates of the next step), ax."""
        lr = group["lr"]
        eta = rounded(lr.item() if isinstance(lr, Tensor) else lr)
        return {"step": 0, "eta": eta, "mu": 1.0, "ax": zeros}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """What stays of the parameter, minus its rate; the shares of the mean, old and new."""
        eta, mu, step, lr = state["eta"], state["mu"], state["step"], group["lr"]
        state["eta"] = rounded(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        state["mu"] = rounded(1 / max(1, step - group["t0"]))
        return 1 - group["lambd"] * eta, -eta, 1 - mu, mu

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        keep, down, old, new = rates
        param.mul_(keep).add_(grad * down)
        state["ax"].mul_(old).add_(param * new)
