"""What runs beside the training: progress, checkpoints, an early end. Hooks as in Lightning."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Callback:
    """Hooks of a `Trainer`, with the module that it fits; a subclass overrides some.

    `state_dict` and `load_state_dict` hold what a checkpoint keeps of it.
    """

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        """Before the first step."""

    def on_fit_end(self, trainer: Any, module: Any) -> None:
        """After the last step."""

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        """Before an epoch."""

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """After an epoch and its validation."""

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After a batch; outputs: its loss, which is not read yet.

        `trainer` fits `module`; `batch_idx` counts from 0. What it raises ends the training.
        """

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        """After a validation, whose values are in trainer.callback_metrics."""

    def on_report(self, trainer: Any, module: Any, values: Mapping[str, float]) -> None:
        """When values were read: means over the steps since the last time, or of a validation.

        `trainer` fits `module`. What it raises ends the training.
        """

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """When an error or an interrupt ends the training.

        `trainer` fits `module`; `exception` is raised again.
        """

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what a checkpoint kept."""


class _Watcher(Callback):
    """Watches a value of the validation, or of the training where there is none."""

    def __init__(self, monitor: str, mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"{type(self).__name__}: mode is {mode!r}; supported: min, max")
        self.monitor, self.mode = monitor, mode
        self.best = math.inf if mode == "min" else -math.inf

    def _better(self, value: float, least: float = 0.0) -> bool:
        return value < self.best - least if self.mode == "min" else value > self.best + least

    def _seen(self, trainer: Any) -> float:
        known = trainer.callback_metrics
        if self.monitor not in known:
            raise KeyError(
                f"{type(self).__name__}: there is no value {self.monitor!r}; there are: "
                f"{', '.join(known) or 'none'}"
            )
        return float(known[self.monitor])


class EarlyStopping(_Watcher):
    """End the training after `patience` validations in which a value got no better.

    mode: "min" or "max" is better, by more than min_delta.

    `monitor` names the value. Raises ValueError for another mode; fit raises KeyError for a name
    that there is not.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 3,
        mode: str = "min",
    ) -> None:
        super().__init__(monitor, mode)
        self.min_delta, self.patience, self.waited = min_delta, patience, 0

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        """Count."""
        value = self._seen(trainer)
        if self._better(value, self.min_delta):
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how long it has been waited."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.best, self.waited = state["best"], state["waited"]


class ModelCheckpoint(_Watcher):
    """Keep "last.safetensors" in a folder, and "best.safetensors" by a value of the validation.

    every_n_steps: also after so many steps, beside the end of every epoch. `Trainer.fit(resume=
    FILE)` goes on from either. monitor=None keeps the last one only.

    `mode`: "min" or "max" is better. Raises ValueError for another mode, and for every_n_steps
    below 1.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        monitor: str | None = "val_loss",
        mode: str = "min",
        every_n_steps: int | None = None,
    ) -> None:
        super().__init__(monitor or "", mode)
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(
                f"ModelCheckpoint: every_n_steps is {every_n_steps}; it must be 1 or more"
            )
        self.folder, self.every_n_steps = Path(folder), every_n_steps
        self.last = self.folder / "last.safetensors"
        self.best_path = self.folder / "best.safetensors"

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save after every_n_steps steps."""
        stepped = trainer.position % trainer.accumulate == 0
        if self.every_n_steps and stepped and trainer.step % self.every_n_steps == 0:
            self._save(trainer)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        """Save if it is the best."""
        if self.monitor and self._better(value := self._seen(trainer)):
            self.best = value
            trainer.save_checkpoint(self.best_path)

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """Save."""
        self._save(trainer)

    def _save(self, trainer: Any) -> None:
        trainer.save_checkpoint(self.last)

    def state_dict(self) -> dict[str, Any]:
        """The best value."""
        return {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.best = state["best"]


class EventCallback(Callback):
    """Calls a function with a dict for every report: {"step", "epoch", "steps", "values"}."""

    def __init__(self, tell: Callable[[dict[str, Any]], object]) -> None:
        self.tell = tell

    def on_report(self, trainer: Any, module: Any, values: Mapping[str, float]) -> None:
        """Tell."""
        where = {"step": trainer.step, "epoch": trainer.epoch, "steps": trainer.steps}
        self.tell({**where, "values": dict(values)})


class ProgressBar(Callback):
    """A bar with the step, the loss, and steps a second, on the terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._began, self._first = 0.0, 0

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        """Draw it, unless the output is no terminal."""
        if not sys.stderr.isatty():
            return
        from rich import progress as parts
        from rich.console import Console

        columns = (
            parts.TextColumn("{task.description}"),
            parts.BarColumn(),
            parts.MofNCompleteColumn(),
            parts.TextColumn("{task.fields[says]}"),
            parts.TimeRemainingColumn(),
        )
        self._bar = parts.Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("training", total=trainer.steps, says="")
        self._began, self._first = time.perf_counter(), trainer.step
        self._bar.start()

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move on."""
        if self._bar is not None:
            self._bar.update(self._task, completed=trainer.step)

    def on_report(self, trainer: Any, module: Any, values: Mapping[str, float]) -> None:
        """Show the values."""
        if self._bar is not None:
            took = time.perf_counter() - self._began
            rate = (trainer.step - self._first) / took if took else 0.0
            said = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
            self._bar.update(self._task, says=f"{said}  {rate:.1f}/s")

    def on_fit_end(self, trainer: Any, module: Any) -> None:
        """End it."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """End it."""
        self.on_fit_end(trainer, module)
