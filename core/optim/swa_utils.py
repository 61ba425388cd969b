"""Averages of a model's weights over training: SWA and EMA; their rate; batch statistics."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.basis.dtype import int64
from rushlight.core.jit import capture
from rushlight.core.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from rushlight.core.ops.creation import zeros
from rushlight.core.optim.lr_scheduler.base import LRScheduler
from rushlight.core.optim.optimizer import Optimizer
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[list[Tensor], list[Tensor], Any], None]


def _towards(averages: list[Tensor], values: list[Tensor], weight: Tensor) -> None:
    for average, value in zip(averages, values, strict=True):
        if average.dtype.is_floating_point:
            share = weight.to(dtype=average.dtype, device=average.device)
            average.add_((value - average) * share)
        else:
            average.copy_(value)


_move = capture.replayed(_towards)  # many small kernels become one message


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """For multi_avg_fn: decay * average + (1 - decay) * value. ValueError beyond [0, 1]."""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_multi_avg_fn: decay is {decay}; it must be in [0, 1]")

    def average(averages: list[Tensor], values: list[Tensor], count: Any) -> None:
        _blend(averages, values, 1 - decay)

    return average


def get_swa_multi_avg_fn() -> Averages:
    """For multi_avg_fn: the mean of all values so far."""

    def average(averages: list[Tensor], values: list[Tensor], count: Any) -> None:
        _blend(averages, values, 1 / (int(count) + 1))

    return average


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """For avg_fn: decay * average + (1 - decay) * value. ValueError beyond [0, 1]."""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn: decay is {decay}; it must be in [0, 1]")

    def average(average: Tensor, value: Tensor, count: Any) -> Tensor:
        return average * decay + value * (1 - decay)

    return average


def get_swa_avg_fn() -> Average:
    """For avg_fn: the mean of all values so far."""

    def average(average: Tensor, value: Tensor, count: Any) -> Tensor:
        return average + (value - average) / (int(count) + 1)

    return average


def _blend(averages: list[Tensor], values: list[Tensor], weight: float) -> None:
    """averages += weight * (values - averages)."""
    with autograd.no_grad():
        weights = zeros(()) + weight
        _move([a.detach() for a in averages], [v.detach() for v in values], weights)


class AveragedModel(nn.Module):
    """A copy of a model, `module`, that holds averages of its weights.

    `update_parameters(model)` adds the model's weights of now: the first are taken over. Without a
    function the average is their mean (Izmailov et al., 2018); `get_ema_multi_avg_fn(decay)` makes
    an exponential one. avg_fn(average, value, count) gives the next average of one tensor,
    multi_avg_fn(averages, values, count) writes those of all. use_buffers: buffers are averaged,
    too, else taken over. device: where the copy lies. `n_averaged` counts. ValueError for both.
    """

    n_averaged: Tensor

    def __init__(
        self, model: nn.Module, device: str | Device | None = None, avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged copy computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: nn.Module) -> None:
        """Add the weights of `model` to the averages."""
        ours, theirs = self._averaged(self.module), self._averaged(model)
        values = [v.detach().to(a.device) for a, v in zip(ours, theirs, strict=True)]
        count = int(self.n_averaged)
        with autograd.no_grad():
            if count == 0:
                for average, value in zip(ours, values, strict=True):
                    average.detach().copy_(value)
            elif self.avg_fn is not None:
                for average, value in zip(ours, values, strict=True):
                    average.detach().copy_(self.avg_fn(average.detach(), value, count))
            else:
                every = self.multi_avg_fn or get_swa_multi_avg_fn()
                every([a.detach() for a in ours], values, count)
            if not self.use_buffers:
                for ours_now, now in zip(self.module.buffers(), model.buffers(), strict=True):
                    ours_now.detach().copy_(now.detach().to(ours_now.device))
            self.n_averaged += 1

    def _averaged(self, model: nn.Module) -> list[Tensor]:
        tensors: list[Tensor] = list(model.parameters())
        return [*tensors, *model.buffers()] if self.use_buffers else tensors


def update_bn(loader: Iterable[Any], model: nn.Module, device: str | Device | None = None) -> None:
    """Compute the running statistics of batch norms anew, from all batches of `loader`.

    The input is a batch, or its first part. Averaged weights need this where batches were not.

    `model` is called on each batch, moved to `device` where set. Raises what the model raises.
    """
    kinds = BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
    norms = [m for m in model.modules() if isinstance(m, kinds)]
    if not norms:
        return
    was, momenta = model.training, [m.momentum for m in norms]
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # the mean of all batches
    try:
        with autograd.no_grad():
            for batch in loader:
                inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(inputs if device is None else inputs.to(device))
    finally:
        for m, momentum in zip(norms, momenta, strict=True):
            m.momentum = momentum
        model.train(was)


class SWALR(LRScheduler):
    """The rates go to `swa_lr` in anneal_epochs epochs and stay there, for weights to be averaged.

    swa_lr: one, or one for each group. anneal_strategy: "cos" or "linear".

    `optimizer` has the rates; `last_epoch` is the epoch to go on after. Raises ValueError for
    another strategy, a negative count, or values that are not one per group.
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
        anneal_strategy: str = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear") or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_strategy is {anneal_strategy!r}, anneal_epochs "
                             f"{anneal_epochs}; they must be cos or linear, and not negative"
                             )  # fmt: skip
        count = len(optimizer.param_groups)
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * count
        if len(rates) != count:
            raise ValueError(f"SWALR: {len(rates)} values of swa_lr for {count} groups")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        """The groups' rates moved on by one epoch."""
        step = self.last_epoch if self.anneal_epochs else max(1, self.last_epoch)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, end = group["lr"], group["swa_lr"]
            first = end if before == 1 else (lr - before * end) / (1 - before)
            rates.append(end * now + first * (1 - now))
        return rates


__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip
