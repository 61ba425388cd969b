"""Schedules of the learning rate, stepped once an epoch or once a batch."""

from rushlight.core.optim.lr_scheduler.base import LRScheduler, ReduceLROnPlateau
from rushlight.core.optim.lr_scheduler.cycles import (
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
)
from rushlight.core.optim.lr_scheduler.factors import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.core.optim.lr_scheduler.joined import ChainedScheduler, SequentialLR

_LRScheduler = LRScheduler  # its older name

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR",
]  # fmt: skip
