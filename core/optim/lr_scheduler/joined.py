"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import LoadError, brief
from rushlight.core.optim.lr_scheduler.base import LRScheduler, ReduceLROnPlateau, checked
from rushlight.core.optim.optimizer import Optimizer


class _Joined(LRScheduler):
    """Schedules of one optimizer, which a step of this one steps."""

    def __init__(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name}: give at least one scheduler")
        self._schedulers = list(schedulers)
        self.optimizer = optimizer or self._schedulers[0].optimizer
        for i, schedule in enumerate(self._schedulers):
            if not isinstance(schedule, LRScheduler):
                raise TypeError(f"{name}: scheduler {i} is a {type(schedule).__name__}")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(f"{name}: scheduler {i} is a ReduceLROnPlateau, which needs a "
                                 "metric; step it by itself")  # fmt: skip
            if schedule.optimizer is not self.optimizer:
                raise ValueError(f"{name}: scheduler {i} is of another optimizer")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the state of each schedule."""
        values = {k: v for k, v in vars(self).items() if k not in ("optimizer", "_schedulers")}
        return {**values, "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        name = type(self).__name__
        rest = checked(name, state_dict)
        states = rest.pop("_schedulers", None)
        if not isinstance(states, (list, tuple)) or len(states) != len(self._schedulers):
            told = brief(states) if not isinstance(states, (list, tuple)) else len(states)
            raise LoadError(f"{name}: _schedulers of the state are {told}; there must be the "
                            f"states of {len(self._schedulers)}")  # fmt: skip
        for schedule, state in zip(self._schedulers, states, strict=True):
            schedule.load_state_dict(state)
        vars(self).update(rest)


class SequentialLR(_Joined):
    """One schedule after another; at each of the epochs `milestones` the next one begins.

    `optimizer` has the rates, `schedulers` are of it, one more than milestones; `last_epoch` is the
    epoch to go on after. Raises ValueError for another count, for no schedulers, and for one of
    another optimizer.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        super().__init__(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(milestones)} milestones for {len(schedulers)} "
                             "schedulers; there must be one less")  # fmt: skip
        self._milestones, self.last_epoch = list(milestones), last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        _undo(self)  # each schedule made a step when it was made
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Count an epoch and step the schedule whose turn it is. ValueError for an epoch."""
        if epoch is not None:
            raise ValueError("SequentialLR: step takes no epoch")
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        now = self._schedulers[number]
        now.step(0 if number and self._milestones[number - 1] == self.last_epoch else None)
        self._last_lr = now.get_last_lr()


def _undo(schedule: LRScheduler) -> None:
    for inner in getattr(schedule, "_schedulers", ()):
        _undo(inner)
    if not isinstance(schedule, _Joined):
        schedule.last_epoch -= 1


class ChainedScheduler(_Joined):
    """All schedules in each epoch, one on top of another."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        super().__init__(optimizer, schedulers)
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Step every schedule."""
        for schedule in self._schedulers:
            schedule.step(epoch)
        self._last_lr = self._rates()
