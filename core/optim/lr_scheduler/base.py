"""The base of schedules, and the one that waits for a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from rushlight.core.basis.errors import LoadError, brief
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
                group.setdefault("initial_lr", group["lr"])  # of several schedules the first says
            elif "initial_lr" not in group:
                raise KeyError(f"{type(self).__name__}: last_epoch is {last_epoch}, but a group of "
                               "the optimizer has no initial_lr")  # fmt: skip
        self.base_lrs: list[float] = [g["initial_lr"] for g in optimizer.param_groups]
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first step."""
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`, from `base_lrs` or the groups' rates."""
        raise NotImplementedError(f"{type(self).__name__} has no method get_lr")

    def closed_form(self) -> list[float]:
        """The rate of each group at `last_epoch`, after any jump.

        By default that of a method `_get_closed_form_lr`, as torch calls it, else `get_lr`.
        """
        rates: list[float] = getattr(self, "_get_closed_form_lr", self.get_lr)()
        return rates

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set."""
        return list(self._last_lr)

    def step(self, epoch: int | None = None) -> None:
        """Count an epoch, or go to `epoch`, and set the groups' rates."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr() if epoch is None else self.closed_form())

    def _set(self, rates: list[float]) -> None:
        self._last_lr = rates
        for group, lr in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions, under torch's names."""
        return {k: v for k, v in vars(self).items() if k != "optimizer" and not _calls(v)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, here or in torch. LoadError for what is no state."""
        vars(self).update(checked(type(self).__name__, state_dict))

    def _rates(self) -> list[float]:
        return [g["lr"] for g in self.optimizer.param_groups]


def checked(name: str, state: Any) -> dict[str, Any]:
    """A copy of the state of a schedule; LoadError for what is none."""
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise LoadError(f"{name}: load_state_dict takes a dict of names, not {brief(state)}")
    return dict(state)


def variables(functions: Sequence[Any]) -> list[dict[str, Any] | None]:
    """What states hold of functions: the variables of callable objects, None of plain functions."""
    return [None if isinstance(fn, FunctionType) else dict(getattr(fn, "__dict__", {}))
            for fn in functions]  # fmt: skip


def revive(name: str, functions: Sequence[Any], states: Any) -> None:
    """Put what `variables` gave back into callable objects; LoadError where they do not fit.

    `name` is in messages; `functions` are the schedule's, `states` their state.
    """
    states = [] if states is None else states
    if len(states) not in (0, len(functions)):
        raise LoadError(f"{name}: the state is of {len(states)} functions; there are "
                        f"{len(functions)}")  # fmt: skip
    for fn, values in zip(functions, states, strict=False):
        if values:
            vars(fn).update(values)


def _calls(value: Any) -> bool:
    return callable(value) or (isinstance(value, list) and any(map(callable, value)))


class ReduceLROnPlateau(LRScheduler):
    """The rates times `factor` after `patience` epochs in which a metric got no better.

    mode: "min" or "max" is better. Better is by `threshold`, "rel" of the best or "abs". After a
    reduction `cooldown` epochs are not counted; changes below `eps` are not made.

    `optimizer` has the rates. `threshold_mode` is "rel" or "abs". `min_lr` is the least rate, one
    or one per group. Raises ValueError for options that are not allowed.
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
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"ReduceLROnPlateau: {len(self.min_lrs)} min_lr for {count} groups")
        self.optimizer, self.last_epoch = optimizer, 0
        self.best = self.mode_worse = math.inf if mode == "min" else -math.inf
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
