"""Schedules of the learning rate, stepped once an epoch or once a batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rushlight.core.optim.optimizer import Optimizer


class LRScheduler:
    """Sets the "lr" of each group of an optimizer; a subclass defines `get_lr`.

    Making one sets the rates of step 0. A group keeps its first rate as "initial_lr".
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: optimizer is a {type(optimizer).__name__}, "
                            "not an Optimizer")  # fmt: skip
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group["initial_lr"] = group["lr"]
            elif "initial_lr" not in group:
                raise KeyError(f"{type(self).__name__}: last_epoch is {last_epoch}, but a group of "
                               "the optimizer has no initial_lr")  # fmt: skip
        self.base_lrs: list[float] = [g["initial_lr"] for g in optimizer.param_groups]
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`, from `base_lrs` or the groups' rates."""
        raise NotImplementedError(f"{type(self).__name__} has no method get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set."""
        return list(self._last_lr)

    def step(self) -> None:
        """Count an epoch and set the groups' rates."""
        self.last_epoch += 1
        self._last_lr = self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions."""
        return {k: v for k, v in vars(self).items() if k != "optimizer" and not _calls(v)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        vars(self).update(state_dict)

    def _rates(self) -> list[float]:
        return [g["lr"] for g in self.optimizer.param_groups]


def _calls(value: Any) -> bool:
    return callable(value) or (isinstance(value, list) and any(map(callable, value)))


class StepLR(LRScheduler):
    """The rates times `gamma` every `step_size` epochs."""

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


class CosineAnnealingLR(LRScheduler):
    """From the first rate to `eta_min` along half a cosine of `T_max` epochs, and back.

    Loshchilov and Hutter (2016), without restarts. As in torch, each rate follows from the last,
    so a rate that is changed on the way stays changed.
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


class LambdaLR(LRScheduler):
    """The first rates times `lr_lambda(epoch)`: one function, or one for each group."""

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

    def get_lr(self) -> list[float]:
        """The first rates times the functions of the epoch."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * fn(self.last_epoch) for base, fn in pairs]


class MultiplicativeLR(LambdaLR):
    """The rates times `lr_lambda(epoch)` in each epoch: one function, or one for each group."""

    def get_lr(self) -> list[float]:
        """The groups' rates times the functions of the epoch."""
        if self.last_epoch == 0:
            return self._rates()
        pairs = zip(self._rates(), self.lr_lambdas, strict=True)
        return [lr * fn(self.last_epoch) for lr, fn in pairs]


class ExponentialLR(LRScheduler):
    """The rates times `gamma` in each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates times gamma."""
        return [lr * self.gamma if self.last_epoch else lr for lr in self._rates()]


class MultiStepLR(LRScheduler):
    """The rates times `gamma` at each of the epochs `milestones`, once per mention."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The groups' rates, times gamma at a milestone."""
        factor = self.gamma ** self.milestones[self.last_epoch]
        return [lr * factor for lr in self._rates()]


class LinearLR(LRScheduler):
    """The first rates times a factor that goes from start_factor to end_factor in total_iters."""

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


class ConstantLR(LRScheduler):
    """The rates times `factor` for the first total_iters epochs."""

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


class PolynomialLR(LRScheduler):
    """The rates fall to zero in total_iters epochs as (1 - epoch / total_iters) ** power."""

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


class ReduceLROnPlateau(LRScheduler):
    """The rates times `factor` after `patience` epochs in which a metric got no better.

    mode: "min" or "max" is better. Better is by `threshold`, "rel" of the best or "abs". After a
    reduction `cooldown` epochs are not counted; changes below `eps` are not made.
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
        min_lr: list[float] | float = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1 or mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: factor is {factor}, mode {mode!r}, threshold_mode"
                             f" {threshold_mode!r}; they must be below 1, 'min' or 'max', 'rel' or "
                             "'abs'")  # fmt: skip
        self.mode, self.factor, self.patience, self.eps = mode, factor, patience, eps
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        count = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"ReduceLROnPlateau: {len(self.min_lrs)} min_lr for {count} groups")
        self.optimizer, self.last_epoch = optimizer, 0
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = self._rates()

    def step(self, metrics: Any = None) -> None:  # type: ignore[override, unused-ignore]
        """Count an epoch with this metric."""
        value = float(metrics)
        self.last_epoch += 1
        sign = 1 if self.mode == "min" else -1
        change = sign * self.threshold
        rel = self.threshold_mode == "rel"
        bound = self.best * (1 - change) if rel else self.best - change
        if sign * value < sign * bound:
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lr = max(group["lr"] * self.factor, least)
                if group["lr"] - lr > self.eps:
                    group["lr"] = lr
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()


__all__ = [
    "ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR",
    "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "ReduceLROnPlateau",
    "StepLR",
]  # fmt: skip
