"""Models that say how they are trained, with the methods of PyTorch Lightning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.training.metrics import Metric


class LightningModule(Module):
    """A module that defines `training_step` and `configure_optimizers`, for `Trainer`.

    training_step(batch, batch_idx) returns the loss, or a dict with it as "loss". A step is
    captured, so it runs as Python once for each kind of batch: batch_idx is then a constant, and
    `Trainer(compile=False)` runs every step as Python. validation_step(batch, batch_idx) may
    return a loss, which is logged as "val_loss". configure_optimizers() returns an optimizer, a
    pair of lists (optimizers, schedulers) of one each, or a dict with "optimizer" and
    "lr_scheduler". `log` notes values.
    """

    trainer: Any = None  # the Trainer that fits this module

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """The loss of a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no method training_step")

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """The loss of a batch, or None; called without gradients, in eval mode."""

    def configure_optimizers(self) -> Any:
        """The optimizer of the parameters, and its schedule if any."""
        raise NotImplementedError(f"{type(self).__name__} has no method configure_optimizers")

    def log(self, name: str, value: Any, **options: Any) -> None:
        """Note a value of a step: a number, or a tensor with one element.

        Values of training steps are means over the steps between two reports, of validation steps
        over all batches. options are Lightning's (prog_bar, on_epoch, ...) and change nothing.

        `name` is the value's. Raises RuntimeError outside of a Trainer's fit.
        """
        if self.trainer is None:
            raise RuntimeError(f"log: no Trainer fits this {type(self).__name__}")
        self.trainer.note({name: value})

    def log_dict(self, values: Mapping[str, Any], **options: Any) -> None:
        """`log` for several values."""
        for name, value in values.items():
            self.log(name, value, **options)


class Plain(LightningModule):
    """A module with a loss function: batches are pairs (input, target)."""

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Tensor] | None,
        optimizer: Any,
        scheduler: Any,
        metrics: Mapping[str, Metric],
    ) -> None:
        super().__init__()
        self.model = model
        self.given, self.metrics = (loss, optimizer, scheduler), dict(metrics)

    def _computed(self, batch: Any) -> tuple[Tensor, Any, Any]:
        loss = self.given[0]
        if loss is None:  # the model computes its own
            computed_loss = self.model(batch)
            return computed_loss, None, None
        if not isinstance(batch, (list, tuple)) or len(batch) != 2:
            raise ValueError(
                f"Trainer: a batch is a {type(batch).__name__}; with a loss function "
                "batches are pairs (input, target)"
            )
        output = self.model(batch[0])
        return loss(output, batch[1]), output, batch[1]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of (input, target)."""
        return self._computed(batch)[0]

    def validation_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss, and what the metrics make of outputs and targets."""
        loss, output, target = self._computed(batch)
        for metric in self.metrics.values():
            metric.update(output, target)
        return loss

    def configure_optimizers(self) -> Any:
        """Those that were given."""
        return {"optimizer": self.given[1], "lr_scheduler": self.given[2]}


def optimizer_of(made: Any) -> tuple[Any, Any]:
    """The optimizer and the schedule of what `configure_optimizers` returned."""
    scheduler = None
    if isinstance(made, Mapping):
        made, scheduler = made["optimizer"], made.get("lr_scheduler")
    elif isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], list):
        made, scheduler = made
    if isinstance(scheduler, list):
        scheduler = scheduler[0] if scheduler else None
    if isinstance(scheduler, Mapping):
        scheduler = scheduler["scheduler"]
    if isinstance(made, list | tuple):
        if len(made) != 1:
            raise ValueError(
                f"Trainer: configure_optimizers gives {len(made)} optimizers; one is "
                "supported; write the loop yourself for several"
            )
        made = made[0]
    if not hasattr(made, "param_groups"):
        raise TypeError(f"Trainer: the optimizer is a {type(made).__name__}")
    return made, scheduler
