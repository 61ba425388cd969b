"""Schedules that go up and down: restarts, cycles, and one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.optim.lr_scheduler.base import LRScheduler, checked, revive, variables
from rushlight.core.optim.optimizer import Optimizer

Each = float | Sequence[float]


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the first rates to `eta_min` along half a cosine, again and again.

    Loshchilov and Hutter (2016). The first fall takes `T_0` epochs, each later one `T_mult` times
    as many as the one before.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for T_0
    or T_mult that is no whole number above 0, KeyError for a last_epoch where the optimizer has no
    initial rates.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"CosineAnnealingWarmRestarts: {name} is {value}; it must be a "
                                 "whole number, 1 or more")  # fmt: skip
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates in epoch T_cur of a fall of T_i epochs."""
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (lr - self.eta_min) * share for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override, unused-ignore]
        """Count an epoch, or go to `epoch`, which may lie between two."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(f"CosineAnnealingWarmRestarts: epoch is {epoch}; it must not be "
                                 "negative")  # fmt: skip
            first, factor = self.T_0, self.T_mult
            if factor == 1:
                self.T_i, self.T_cur = first, epoch % first
            else:
                falls = int(math.log(epoch / first * (factor - 1) + 1, factor))
                before = first * (factor**falls - 1) // (factor - 1)
                self.T_i, self.T_cur = first * factor**falls, epoch - before
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class _Momentum(LRScheduler):
    """A schedule that moves the momentum, or the first of the betas, against the rate."""

    cycle_momentum = False

    def _begin(self, optimizer: Optimizer, low: Each, high: Each, fresh: bool) -> None:
        keys = [key for key in ("betas", "momentum") if key in optimizer.defaults]
        if not keys:
            raise ValueError(f"{type(self).__name__}: the optimizer has neither momentum nor "
                             "betas; pass cycle_momentum=False")  # fmt: skip
        self.use_beta1 = keys[0] == "betas"
        name, count = type(self).__name__, len(optimizer.param_groups)
        values = (
            _each(name, "base_momentum", low, count),
            _each(name, "max_momentum", high, count),
        )
        self.base_momentums, self.max_momentums = values
        for group, least, most in zip(optimizer.param_groups, *values, strict=True):
            if fresh:
                self._move(group, most)
            group["base_momentum"], group["max_momentum"] = least, most

    def _move(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Momentum):
    """The rates rise from `base_lr` to `max_lr` in step_size_up steps and fall back in as many.

    Smith (2015). mode: "triangular", "triangular2" (each cycle half as high as the one before) or
    "exp_range" (gamma ** step as high). scale_fn takes its place: a factor by the number of the
    cycle, or of the step where scale_mode is "iterations". step_size_down: steps of the fall.
    cycle_momentum: the momentum falls from max_momentum to base_momentum as the rate rises.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for
    another mode, for values that are not one per group, and for cycle_momentum where the optimizer
    has no momentum.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Each, max_lr: Each, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Each = 0.8, max_momentum: Each = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"CyclicLR: mode is {mode!r}; supported: triangular, triangular2, "
                             "exp_range")  # fmt: skip
        count = len(optimizer.param_groups)
        low = _each("CyclicLR", "base_lr", base_lr, count)
        self.max_lrs = _each("CyclicLR", "max_lr", max_lr, count)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, low, strict=True):
                group["lr"] = lr
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = "iterations" if scale_fn is None and mode == "exp_range" else scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = low

    def scale_fn(self, x: float) -> float:
        """How high the cycle, or the step, of number x is."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        base, power = (2.0, 1 - x) if self.mode == "triangular2" else (self.gamma, x)
        return math.pow(base, power)

    def get_lr(self) -> list[float]:
        """The rates of the step; sets the momentum, too."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        ratio = self.step_ratio
        height = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, ends, strict=True):
                self._move(group, high - (high - low) * height)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; of a callable object its variables."""
        state = None if self._scale_fn_custom is None else variables([self._scale_fn_custom])[0]
        return {**super().state_dict(), "_scale_fn_custom": state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; the function stays, a callable object goes on."""
        rest = checked("CyclicLR", state_dict)
        scale_state = rest.pop("_scale_fn_custom", None)
        if scale_state and self._scale_fn_custom is not None:
            revive("CyclicLR", [self._scale_fn_custom], [scale_state])
        super().load_state_dict(rest)


_PHASE = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")


class OneCycleLR(_Momentum):
    """One rise to `max_lr` and one fall far below the start, in all `total_steps`.

    Smith and Topin (2017). The first rate is max_lr / div_factor, the last that by
    final_div_factor. The rise takes the share pct_start. anneal_strategy: "cos" or "linear".
    three_phase: a fall as long as the rise comes before the last. Instead of total_steps give
    epochs and steps_per_epoch. cycle_momentum: see CyclicLR. ValueError after the last step.

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. The momentum goes from
    `max_momentum` to `base_momentum` and back. Raises ValueError for options that are not allowed.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Each, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Each = 0.85,
        max_momentum: Each = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps < 1:
            raise ValueError(f"OneCycleLR: total_steps is {total_steps}; give it, or epochs and "
                             "steps_per_epoch, 1 or more")  # fmt: skip
        if not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: pct_start is {pct_start}, anneal_strategy "
                             f"{anneal_strategy!r}; they must be in [0, 1] and cos or linear"
                             )  # fmt: skip
        self.total_steps, self.cycle_momentum = total_steps, cycle_momentum
        self._anneal_func_type = anneal_strategy
        rise = pct_start * total_steps - 1
        # The last step of each phase, and the options at its begin and its end.
        phases: list[tuple[float, str, str, str, str]] = [
            (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        ]
        if three_phase:
            phases += [
                (2 * rise, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            phases += [(total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        self._schedule_phases: list[dict[str, Any]] = [
            dict(zip(_PHASE, phase, strict=True)) for phase in phases
        ]
        if last_epoch == -1:
            high = _each("OneCycleLR", "max_lr", max_lr, len(optimizer.param_groups))
            for group, lr in zip(optimizer.param_groups, high, strict=True):
                group["initial_lr"], group["max_lr"] = lr / div_factor, lr
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._begin(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def get_lr(self) -> list[float]:
        """The rates of the step; sets the momentum, too."""
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of total_steps={self.total_steps}")
        begin = 0.0
        phases: list[Any] = [tuple(p[key] for key in _PHASE) for p in self._schedule_phases]
        for end, first, last, m_first, m_last in phases:  # noqa: B007
            if step <= end:
                break
            begin = end
        else:
            begin = phases[-2][0]
        share = (step - begin) / (end - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[first], group[last], share))
            if self.cycle_momentum:
                self._move(group, self._between(group[m_first], group[m_last], share))
        return rates


def _each(name: str, what: str, value: Each, count: int) -> list[float]:
    """A value for each group."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise ValueError(f"{name}: {len(value)} values of {what} for {count} groups")
        return list(value)
    return [value] * count  # type: ignore[list-item]
