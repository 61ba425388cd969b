"""Losses as modules; core/functional/losses.py has them as functions."""

from __future__ import annotations

from rushlight.core.functional.losses import cross_entropy, mse_loss
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor


class CrossEntropyLoss(Module):
    """`cross_entropy` with fixed options; the class weights are a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits (n, classes, ...) and targets -> the loss."""
        return cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class MSELoss(Module):
    """`mse_loss` with a fixed reduction."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two tensors of one shape -> the loss."""
        return mse_loss(input, target, self.reduction)
