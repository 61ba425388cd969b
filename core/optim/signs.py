"""Optimizers that step by the signs of gradients: Rprop, Lion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.ops.binary import where
from rushlight.core.optim.optimizer import Params, Start
from rushlight.core.optim.rule import Rule, zeros
from rushlight.core.tensor.tensor import Tensor


class Rprop(Rule):
    """Each element has a step size of its own (Riedmiller and Braun, 1993).

    It grows by etas[1] while the gradient keeps its sign, and shrinks by etas[0] where the sign
    changes, which also skips the step; it stays within step_sizes.

    `lr` is the first step size. `maximize`: the objective grows. `params` are tensors, or dicts of
    them with options of their own. Raises ValueError for no parameters, for one that is no leaf or
    comes twice, and for negative options or betas outside [0, 1). ValueError also for etas that do
    not shrink and grow. `foreach` and `capturable` change nothing. `differentiable`: gradients go
    through steps.
    """

    def __init__(
        self, params: Params, lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def check(self, group: Mapping[str, Any]) -> None:
        """One eta shrinks, the other grows."""
        super().check(group)
        if not 0 < group["etas"][0] < 1 < group["etas"][1]:
            raise ValueError(f"Rprop: etas are {group['etas']}; the first must be in (0, 1), the "
                             "second above 1")  # fmt: skip

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """step, prev (the last gradient), step_size."""
        lr = group["lr"]
        return {
            "step": 0,
            "prev": zeros,
            "step_size": lambda p: p.full_like(lr.item() if isinstance(lr, Tensor) else lr),
        }

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The factors of a step size, and its bounds."""
        return (*group["etas"], *group["step_sizes"])

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        less, more, least, most = rates
        size, along = state["step_size"], grad * state["prev"]
        size.copy_(where(along > 0, size * more, where(along < 0, size * less, size)))
        size.copy_(size.clamp(least, most))
        grad = where(along < 0, 0.0, grad)
        param.sub_(grad.sign() * size)
        state["prev"].copy_(grad)


class Lion(Rule):
    """p -= lr * sign of a mean of gradients (Chen et al., 2023), with decoupled weight decay.

    betas: the rate of the mean that steps, and of the one that is kept. Not in torch; the options
    are those of the authors' program.

    `weight_decay` is a rate. `maximize`: the objective grows. `params` are tensors, or dicts of
    them with options of their own. Raises ValueError for no parameters, for one that is no leaf or
    comes twice, and for negative options or betas outside [0, 1). `foreach` and `capturable` change
    nothing. `differentiable`: gradients go through steps.
    """

    decoupled = True

    def __init__(
        self, params: Params, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, locals())

    def start(self, param: Tensor, group: Mapping[str, Any]) -> Start:
        """exp_avg."""
        return {"exp_avg": zeros}

    def numbers(self, state: dict[str, Any], group: Mapping[str, Any]) -> tuple[float, ...]:
        """The parts of mean and gradient in the step, and in the kept mean; minus lr."""
        beta1, beta2 = group["betas"]
        return beta1, 1 - beta1, beta2, 1 - beta2, -group["lr"]

    def update_parameter(
        self, param: Tensor, grad: Tensor, state: Any, rates: Any, group: Mapping[str, Any]
    ) -> None:
        """One step."""
        old, new, keep, added, down = rates
        mean = state["exp_avg"]
        param.add_((mean * old + grad * new).sign() * down)
        mean.mul_(keep).add_(grad * added)
