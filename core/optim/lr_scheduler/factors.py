"""Schedules that multiply the rates: by steps, along curves, or by functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import LoadError, brief
from rushlight.core.optim.lr_scheduler.base import LRScheduler, checked, revive, variables
from rushlight.core.optim.optimizer import Optimizer


class StepLR(LRScheduler):
    """The rates times `gamma` every `step_size` epochs.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for a
    step_size below 1, KeyError for a last_epoch where the optimizer has no initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size is {step_size}; it must be 1 or more")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates, times gamma at a multiple of step_size."""
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma if due else lr for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the first rate to `eta_min` along half a cosine of `T_max` epochs, and back.

    Loshchilov and Hutter (2016), without restarts. As in torch, each rate follows from the last,
    so a rate that is changed on the way stays changed.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for a
    T_max below 1, KeyError for a last_epoch where the optimizer has no initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: T_max is {T_max}; it must be 1 or more")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates moved on by one epoch."""
        t, n, low = self.last_epoch, self.T_max, self.eta_min
        if t == 0:
            return self._rates()
        if (t - 1 - n) % (2 * n) == 0:  # at the bottom, where the ratio below is 0 / 0
            rise = (1 - math.cos(math.pi / n)) / 2
            pairs = zip(self._rates(), self.base_lrs, strict=True)
            return [lr + (base - low) * rise for lr, base in pairs]
        ratio = (1 + math.cos(math.pi * t / n)) / (1 + math.cos(math.pi * (t - 1) / n))
        return [low + (lr - low) * ratio for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * share for lr in self.base_lrs]


class LambdaLR(LRScheduler):
    """The first rates times `lr_lambda(epoch)`: one function, or one for each group.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for
    another count of functions, KeyError for a last_epoch where the optimizer has no initial rates.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ValueError(f"LambdaLR: {len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; of callable objects their variables."""
        return {**super().state_dict(), "lr_lambdas": variables(self.lr_lambdas)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; the functions stay, callable objects go on."""
        name = type(self).__name__
        rest = checked(name, state_dict)
        revive(name, self.lr_lambdas, rest.pop("lr_lambdas", None))
        super().load_state_dict(rest)

    def get_lr(self) -> list[float]:
        """The first rates times the functions of the epoch."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * fn(self.last_epoch) for base, fn in pairs]


class MultiplicativeLR(LambdaLR):
    """The rates times `lr_lambda(epoch)` in each epoch: one function, or one for each group.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for
    another count of functions, KeyError for a last_epoch where the optimizer has no initial rates.
    """

    def get_lr(self) -> list[float]:
        """The groups' rates times the functions of the epoch."""
        if self.last_epoch == 0:
            return self._rates()
        pairs = zip(self._rates(), self.lr_lambdas, strict=True)
        return [lr * fn(self.last_epoch) for lr, fn in pairs]


class ExponentialLR(LRScheduler):
    """The rates times `gamma` in each epoch.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises KeyError for a
    last_epoch where the optimizer has no initial rates.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates times gamma."""
        return [lr * self.gamma if self.last_epoch else lr for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rates times `gamma` at each of the epochs `milestones`, once per mention.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises KeyError for a
    last_epoch where the optimizer has no initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; files may keep the milestones as texts or as a list."""
        rest = checked("MultiStepLR", state_dict)
        epochs = rest.get("milestones", self.milestones)
        try:
            pairs = epochs.items() if isinstance(epochs, Mapping) else Counter(epochs).items()
            rest["milestones"] = Counter({int(epoch): int(count) for epoch, count in pairs})
        except (TypeError, ValueError):
            raise LoadError(f"MultiStepLR: milestones are {brief(epochs)}; they must be epochs, "
                            "with how often each is mentioned") from None  # fmt: skip
        super().load_state_dict(rest)

    def get_lr(self) -> list[float]:
        """The groups' rates, times gamma at a milestone."""
        factor = self.gamma ** self.milestones.get(self.last_epoch, 0)
        return [lr * factor for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        passed = sum(n for epoch, n in self.milestones.items() if epoch <= self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """The first rates times a factor that goes from start_factor to end_factor in total_iters.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for a
    start_factor outside (0, 1] or an end_factor outside [0, 1], KeyError for a last_epoch where the
    optimizer has no initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: start_factor is {start_factor}, end_factor {end_factor}; "
                             "they must be in (0, 1] and [0, 1]")  # fmt: skip
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates moved on by one epoch."""
        t, n, first = self.last_epoch, self.total_iters, self.start_factor
        rise = self.end_factor - first
        if t == 0:
            return [lr * first for lr in self._rates()]
        if t > n:
            return self._rates()
        return [lr * (1 + rise / (n * first + (t - 1) * rise)) for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        share = min(self.last_epoch, self.total_iters) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [lr * factor for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rates times `factor` for the first total_iters epochs.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for a
    factor outside (0, 1], KeyError for a last_epoch where the optimizer has no initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < factor <= 1:
            raise ValueError(f"ConstantLR: factor is {factor}; it must be in (0, 1]")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates, times the factor at first and divided by it at the end."""
        t = self.last_epoch
        change = self.factor if t == 0 else 1 / self.factor if t == self.total_iters else 1.0
        return [lr * change for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [lr * factor for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rates fall to zero in total_iters epochs as (1 - epoch / total_iters) ** power.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises KeyError for a
    last_epoch where the optimizer has no initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates moved on by one epoch."""
        t, n = self.last_epoch, self.total_iters
        if t == 0 or t > n:
            return self._rates()
        factor = ((1 - t / n) / (1 - (t - 1) / n)) ** self.power
        return [lr * factor for lr in self._rates()]

    def closed_form(self) -> list[float]:
        """The rates at `last_epoch`, from the first ones."""
        share = 1 - min(self.last_epoch, self.total_iters) / self.total_iters
        return [lr * share**self.power for lr in self.base_lrs]
