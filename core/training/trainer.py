"""The training loop: steps, validation, checkpoints, and going on from one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.functional.joining import stack
from rushlight.core.jit.function import jit
from rushlight.core.jit.pytree import mapped
from rushlight.core.nn.module import Module
from rushlight.core.nn.utils import clip_grad_norm_, clip_grad_value_
from rushlight.core.ops.creation import zeros
from rushlight.core.optim import swa_utils
from rushlight.core.optim.lr_scheduler import ReduceLROnPlateau
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.training.callbacks import Callback, ProgressBar
from rushlight.core.training.checkpoint import go_on, numbers_of, read, restore, state_of, write
from rushlight.core.training.metrics import Metric
from rushlight.core.training.module import LightningModule, Plain, optimizer_of
from rushlight.core.training.precision import Precision
from rushlight.core.training.processes import Processes

# A generator of these asks for the numbers of a tensor, and gets them as a list.
Reads = Generator[Tensor, Any, Any]


class Trainer:
    """Trains a module: `Trainer(model, optimizer, loss).fit(batches, validation, epochs=3)`.

    model: a module, with an optimizer and loss(output, target) for batches (input, target), or
    loss=None where the model called with a batch returns its loss; or a `LightningModule`, which
    brings its own. scheduler: stepped after each epoch, or each step where scheduler_interval is
    "step". metrics: by name, of the validation.

    Batches are moved to the model's device.
    accumulate: batches whose mean gradient makes a step. clip_norm, clip_value: bounds of the
    gradients. ema: the decay of an exponential average of the weights, `trainer.ema`, which is
    validated in place of the model. compile: steps are captured (`rl.jit`). report_every: steps
    between two readings of the loss; a loss that is not finite raises FloatingPointError then, with
    its step. progress: a bar on the terminal. precision: "32-true", or "bf16-mixed" or "16-mixed",
    with which steps run within `rl.autocast`; "16-mixed" scales the loss (`rl.amp.GradScaler`)
    and leaves out steps whose gradients are infinite. strategy: "ddp" trains with all processes
    that `mpirun -n N python PROGRAM` started: each has its share of the batches, gradients and
    reported values are means over them, the first one reports and writes checkpoints, and a run
    on N equals that on one process with batches N times as large. An error ends all of them.

    `step` and `epoch` count what is done, `steps` is the goal, `callback_metrics` has the values
    that were read last; a callback sets `should_stop`. ValueError for options out of range.

    `callbacks` are called at the places that `Callback` names.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Any = None,
        loss: Callable[..., Tensor] | None = None,
        *,
        scheduler: Any = None,
        scheduler_interval: str = "epoch",
        metrics: Mapping[str, Metric] | None = None,
        callbacks: Sequence[Callback] = (),
        accumulate: int = 1,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        ema: float | None = None,
        compile: bool = True,
        report_every: int = 10,
        progress: bool = True,
        precision: str | int = "32-true",
        strategy: str = "auto",
    ) -> None:
        for name, value in (("accumulate", accumulate), ("report_every", report_every)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"Trainer: {name} is {value}; it must be a whole number, 1 or more"
                )
        if scheduler_interval not in ("epoch", "step"):
            raise ValueError(
                f"Trainer: scheduler_interval is {scheduler_interval!r}; supported: epoch, step"
            )
        is_lightning = isinstance(model, LightningModule)
        if is_lightning and (optimizer is not None or loss is not None):
            raise ValueError(
                "Trainer: a LightningModule brings its optimizer and loss; define "
                "configure_optimizers and training_step"
            )
        if not is_lightning and optimizer is None:
            raise ValueError("Trainer: give an optimizer, or a LightningModule")
        self.model = model
        self.metrics = dict(metrics or {})
        plain = Plain(model, loss, optimizer, scheduler, self.metrics)
        module: Any = model if is_lightning else plain
        self.module: Any = module
        self.optimizer, self.scheduler = optimizer_of(module.configure_optimizers())
        if scheduler_interval == "step" and isinstance(self.scheduler, ReduceLROnPlateau):
            raise ValueError(
                "Trainer: a ReduceLROnPlateau waits for the metric of an epoch; "
                'scheduler_interval must be "epoch"'
            )
        self.scheduler_interval, self.accumulate = scheduler_interval, accumulate
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.ema = None
        if ema is not None:
            how = swa_utils.get_ema_multi_avg_fn(ema)
            self.ema = swa_utils.AveragedModel(model, multi_avg_fn=how)
        self.report_every, self.precision = report_every, Precision(precision)
        self.processes = Processes(strategy)
        shown = progress and self.processes.first
        self.callbacks = [*callbacks, *([ProgressBar()] if shown else [])]
        self.step = self.epoch = self.position = 0
        self.steps: int | None = None
        self.should_stop = False
        self.callback_metrics: dict[str, float] = {}
        self._noted: dict[str, Any] = {}
        self._losses: list[Tensor] = []
        self._kept: dict[str, list[Tensor]] = {}
        self._drawn: Any = None
        self._loader: Any = None
        self._backward = jit(self._gradients) if compile else self._gradients

    def fit(
        self,
        train: Iterable[Any],
        validation: Iterable[Any] | None = None,
        *,
        epochs: int = 1,
        steps: int | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> dict[str, float]:
        """Train for so many epochs of `train` in all, or `steps`; returns the last values.

        train: batches that can be iterated again, such as a DataLoader. validation: after each
        epoch. resume: a checkpoint's file; the run goes on as if it had not been interrupted, also
        in the middle of an epoch, if the batches are as they were. A second fit goes on from the
        first. ValueError if there is no batch; FloatingPointError for a loss that is not finite.
        """
        return self._drive(self._run(train, validation, epochs, steps, resume))

    def _drive(self, going: Reads) -> dict[str, float]:
        values = None
        while True:
            try:
                asked = going.send(values)
            except StopIteration:
                return dict(self.callback_metrics)
            values = asked.tolist()

    async def fit_async(
        self,
        train: Iterable[Any],
        validation: Iterable[Any] | None = None,
        *,
        epochs: int = 1,
        steps: int | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> dict[str, float]:
        """`fit` without a blocking wait; lets other tasks run between two steps.

        `train`, `validation`, `epochs`, `steps`, `resume` and what is raised are fit's.
        """
        import asyncio

        going, values = self._run(train, validation, epochs, steps, resume, True), None
        while True:
            try:
                asked = going.send(values)
            except StopIteration:
                return dict(self.callback_metrics)
            await asyncio.sleep(0)
            values = None if asked is None else await asked.tolist_async()

    def validate(self, batches: Iterable[Any]) -> dict[str, float]:
        """The mean loss and the metrics of these batches, as "val_..."."""
        return self._drive(self._validation(batches))

    def note(self, values: Mapping[str, Any]) -> None:
        """Take values that a step logs; see `LightningModule.log`."""
        self._noted.update(values)

    def _placed(self, batch: Any) -> Any:
        first = next(self.model.parameters(), None)
        return batch if first is None else mapped(batch, lambda t: t.to(first.device))

    # --- the loop ----------------------------------------------------------------------------

    def _run(
        self,
        train: Iterable[Any],
        validation: Iterable[Any] | None,
        epochs: int,
        steps: int | None,
        resume: str | os.PathLike[str] | None,
        pause: bool = False,
    ) -> Reads:
        self.module.trainer = self
        try:
            train = self.processes.share(train)
            if resume is not None:
                self.load_checkpoint(resume, train)
            self.processes.begin(self.model)
            self._goal(train, epochs, steps)
            self.should_stop = False
            self._call("on_fit_start")
            was = self.module.training
            try:
                while not self._over(epochs):
                    yield from self._one_epoch(train, validation, pause)
                yield from self._report()
            finally:
                self.module.train(was)
            self._call("on_fit_end")
        except BaseException as error:
            self._call("on_exception", error)
            self.processes.failed()
            raise
        finally:
            self.module.trainer = None
            self._losses, self._kept, self._noted = [], {}, {}

    def _goal(self, train: Any, epochs: int, steps: int | None) -> None:
        if steps is None:
            try:
                steps = epochs * math.ceil(len(train) / self.accumulate)
            except TypeError:
                pass  # of a stream without a length
        if steps == 0:
            raise ValueError("Trainer: there are no batches to train on")
        self.steps = steps

    def _over(self, epochs: int) -> bool:
        done = self.steps is not None and self.step >= self.steps
        return self.should_stop or done or self.epoch >= epochs

    def _one_epoch(self, train: Any, validation: Any, pause: bool) -> Reads:
        self.module.train()
        if self.position == 0:
            self._call("on_train_epoch_start")
        count, stopped = self.position, False
        for batch in self._batches(train):
            if stopped := self.should_stop or self.step == self.steps:
                break
            count += 1
            loss = self._take(batch, count - 1)
            self.position = count
            if count % self.accumulate == 0:
                yield from self._update()
            self._call("on_train_batch_end", loss, batch, count - 1)
            if len(self._losses) >= self.report_every * self.accumulate:
                yield from self._report()
            elif pause:
                yield None  # type: ignore[misc]
        if count == 0:
            raise ValueError("Trainer: there are no batches to train on")
        yield from self._report()
        if stopped:  # a later fit goes on in the middle of the epoch
            return
        if count % self.accumulate:
            yield from self._update()  # of the batches that are left
        self.epoch, self.position, self._drawn = self.epoch + 1, 0, None
        if validation is not None:
            yield from self._validation(validation)
        if self.scheduler is not None and self.scheduler_interval == "epoch":
            self._reschedule()
        self._call("on_train_epoch_end")

    def _batches(self, train: Any) -> Iterator[Any]:
        """The batches of an epoch from `position` on, drawn as those of the whole epoch."""
        sampler: Any = getattr(train, "sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self.epoch)
        generator = getattr(train, "generator", None)
        now = numbers_of(generator)
        if self._drawn is not None:
            restore(self._drawn, generator)
        else:
            self._drawn = now
        self._loader = generator
        if self.position and hasattr(train, "iterate_from"):
            batches = train.iterate_from(self.position)
        else:
            batches = islice(iter(train), self.position, None)
        first = next(batches, self)
        if self.position:  # the order is drawn: go on with the numbers of the interruption
            restore(now, generator)
        if first is not self:
            yield first
        yield from batches

    def _gradients(self, batch: Any, number: int) -> Any:
        """Backward of one batch: its loss, and what the step logged."""
        self._noted = {}
        with self.precision.forward(self.model):
            result = self.module.training_step(batch, number)
        loss = result["loss"] if isinstance(result, Mapping) else result
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            shape = loss.shape if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(
                f"Trainer: the loss of a step is {shape}; it must be a tensor with one element"
            )
        share = loss / self.accumulate if self.accumulate > 1 else loss
        self.precision.scaler.scale(share).backward()
        noted = {
            k: v.detach() if isinstance(v, Tensor) else zeros(()) + float(v)
            for k, v in self._noted.items()
        }
        return loss.detach().reshape(()), noted

    def _take(self, batch: Any, number: int) -> Tensor:
        if (number % self.accumulate) == 0:
            self.optimizer.zero_grad()
        batch = self._placed(batch)
        # A captured step sees no Python values that change.
        loss, noted = self._backward(batch, 0 if self._backward != self._gradients else number)
        self._losses.append(loss)
        for name, value in noted.items():
            self._kept.setdefault(name, []).append(value.reshape(()))
        step_loss: Tensor = loss
        return step_loss

    def _update(self) -> Reads:
        scaler, infinite = self.precision.scaler, 0.0
        params = [p for g in self.optimizer.param_groups for p in g["params"]]
        self.processes.average(params)
        scaler.unscale_(self.optimizer)
        if self.clip_value is not None:
            clip_grad_value_(params, self.clip_value)
        if self.clip_norm is not None:
            clip_grad_norm_(params, self.clip_norm)
        if scaler.is_enabled():
            infinite = yield scaler.found_inf(self.optimizer)
            scaler.update()
        if not infinite:
            self.optimizer.step()
        self.step += 1
        self.should_stop = self.processes.any(self.should_stop)
        if self.ema is not None:
            self.ema.update_parameters(self.model)
        if self.scheduler is not None and self.scheduler_interval == "step":
            self.scheduler.step()

    def _reschedule(self) -> None:
        if not isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step()
            return
        known = self.callback_metrics
        self.scheduler.step(known.get("val_loss", known.get("loss")))

    def _report(self) -> Reads:
        """Read the losses and the logged values since the last time."""
        if not self._losses:
            return
        names = list(self._kept)
        read = yield stack(
            [x.float() for x in (*self._losses, *(v for n in names for v in self._kept[n]))]
        )
        count = len(self._losses)
        losses, start = read[:count], count
        self._losses = []
        first = self.step * self.accumulate - count
        for i, value in enumerate(losses):
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"Trainer: the loss of step {max(0, first + i) // self.accumulate} is {value}; "
                    "lower the rate or set clip_norm; rl.autograd.detect_anomaly() names the op"
                )
        values = {"loss": sum(losses) / count}
        for name in names:
            many = len(self._kept[name])
            values[name] = sum(read[start : start + many]) / many
            start += many
        self._kept = {}
        values["lr"] = float(self.optimizer.param_groups[0]["lr"])
        self._told(values)

    def _validation(self, batches: Iterable[Any]) -> Reads:
        module: Any = self.module
        if self.ema is not None:
            module = self.ema.module
            if isinstance(self.module, Plain):
                module = Plain(module, self.module.given[0], None, None, self.metrics)
        was, count, by_name = module.training, 0, dict[str, list[Any]]()
        module.eval()
        outer, module.trainer = module.trainer, self
        for metric in self.metrics.values():
            metric.reset()
        try:
            with autograd.no_grad(), self.precision.forward(self.model):
                for number, batch in enumerate(batches):
                    self._noted, count = {}, count + 1
                    result = module.validation_step(self._placed(batch), number)
                    if result is not None:
                        value = result["loss"] if isinstance(result, Mapping) else result
                        self._noted.setdefault("val_loss", value)
                    for name, value in self._noted.items():
                        value = value.detach() if isinstance(value, Tensor) else zeros(()) + value
                        by_name.setdefault(name, []).append(value.float().reshape(()))
        finally:
            module.train(was)
            module.trainer = outer
            self._noted = {}
        if not count:
            raise ValueError("Trainer: there are no batches to validate with")
        values = {}
        if by_name:
            means = yield stack([stack(v).mean() for v in by_name.values()])
            values = dict(zip(by_name, means, strict=True))
        for name, metric in self.metrics.items():
            if metric.total is not None:
                result = metric.value(np.asarray((yield metric.total)))
                if isinstance(result, int | float):
                    values[f"val_{name}"] = float(result)
        self._told(values)
        self._call("on_validation_end")

    def _told(self, values: dict[str, float]) -> None:
        values = self.processes.means(values)
        self.callback_metrics.update(values)
        self._call("on_report", values)

    def _call(self, hook: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, self.model, *args)

    # --- checkpoints -------------------------------------------------------------------------

    def save_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Write everything that `fit(resume=path)` needs: weights, optimizer, schedule, numbers.

        The file replaces an older one when it is complete. OSError if it cannot be written; the
        older one stays. Random numbers are those of rl; Python's and NumPy's are not kept. Of
        several processes the first one writes, and the others wait for it.
        """
        if self.processes.first:
            write(Path(path), state_of(self))
        self.processes.wait()

    def load_checkpoint(self, path: str | os.PathLike[str], train: Any = None) -> None:
        """Go on from a file of `save_checkpoint`. FormatError for another file, LoadError where
        names or shapes do not fit."""
        go_on(self, read(Path(path)), getattr(train, "generator", None), Path(path))
