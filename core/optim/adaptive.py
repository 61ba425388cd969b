"""Optimizers that divide by a measure of past gradients: Adagrad, Adadelta, RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.optim.optimizer import Params, Start
from rushlight.core.optim.rule import Rule, zeros
from rushlight.core.tensor.tensor import Tensor


class Adagrad(Rule):
    """p -= lr * grad / (sqrt(sum) + eps), sum that of all squared gradients (Duchi et al., 2011).

    The rate is lr / (1 + lr_decay * (step - 1)); the sum begins with initial_accumulator_value.

    `weight_decay` times the parameter is added to its gradient. `maximize`: the objective grows.
    `params` are tensors, or dicts of them with options of their own. Raises ValueError for no
    parameters, for one that is no leaf or comes twice, and for negative options or betas outside
    [0, 1). `foreach` and `fused` change nothing. `differentiable`: gradients go through steps.
    """

    sparse = True

    def __init__(
        self, params: Params, lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, sum."""
        return {"step": 0, "sum": lambda p: p.full_like(group["initial_accumulator_value"])}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """Minus the rate, eps."""
        return -group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"]), group["eps"]

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        down, eps = rates
        total = state["sum"].add_(grad * grad)
        param.add_(grad / total.sqrt().add_(eps) * down)


class Adadelta(Rule):
    """Steps as large as the running mean of earlier ones (Zeiler, 2012); rho is its rate.

    `lr` times each step; `eps` keeps the root from zero. `weight_decay` times the parameter is
    added to its gradient. `maximize`: the objective grows. `params` are tensors, or dicts of them
    with options of their own. Raises ValueError for no parameters, for one that is no leaf or comes
    twice, and for negative options or betas outside [0, 1). `foreach` and `capturable` change
    nothing. `differentiable`: gradients go through steps.
    """

    def __init__(
        self, params: Params, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0.0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def check(self, group: Mapping[str, Any]) -> None:
        """rho is in [0, 1]."""
        super().check(group)
        if group["rho"] > 1:
            raise ValueError(f"Adadelta: rho is {group['rho']}; it must be in [0, 1]")

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, square_avg, acc_delta."""
        return {"step": 0, "square_avg": zeros, "acc_delta": zeros}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """rho, one minus rho, eps, minus lr."""
        return group["rho"], 1 - group["rho"], group["eps"], -group["lr"]

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        old, new, eps, down = rates
        square, steps = state["square_avg"], state["acc_delta"]
        square.mul_(old).add_(grad * grad * new)
        delta = (steps + eps).sqrt() / (square + eps).sqrt() * grad
        steps.mul_(old).add_(delta * delta * new)
        param.add_(delta * down)


class RMSprop(Rule):
    """p -= lr * grad / (sqrt(v) + eps), v the running mean of the gradient's square (Hinton, 2012).

    alpha is the rate of v. centered subtracts the square of the gradient's running mean from v.
    momentum sums the quotients. weight_decay times the parameter is added to its gradient.

    `maximize`: the objective grows. `params` are tensors, or dicts of them with options of their
    own. Raises ValueError for no parameters, for one that is no leaf or comes twice, and for
    negative options or betas outside [0, 1). `foreach` and `capturable` change nothing.
    `differentiable`: gradients go through steps.
    """

    def __init__(  # noqa: PLR0913
        self, params: Params, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def check(self, group: Mapping[str, Any]) -> None:
        """alpha must not be negative either."""
        super().check(group)
        if not group["alpha"] >= 0:
            raise ValueError(f"RMSprop: alpha is {group['alpha']}; it must not be negative")

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, square_avg, and momentum_buffer and grad_avg where they are used."""
        averages: dict[str, Any] = {"step": 0, "square_avg": zeros}
        used = {"momentum_buffer": group["momentum"], "grad_avg": group["centered"]}
        return averages | {key: zeros for key, use in used.items() if use}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """alpha, one minus alpha, eps, momentum, minus lr."""
        alpha = group["alpha"]
        return alpha, 1 - alpha, group["eps"], group["momentum"], -group["lr"]

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        old, new, eps, momentum, down = rates
        square = state["square_avg"].mul_(old).add_(grad * grad * new)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.add_((grad - mean) * new)
            square = square - mean * mean
        step = grad / square.sqrt().add_(eps)
        if group["momentum"]:
            step = state["momentum_buffer"].mul_(momentum).add_(step)
        param.add_(step * down)
