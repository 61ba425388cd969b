"""Optimizers that update parameters in place."""

from rushlight.core.optim.adamw import AdamW
from rushlight.core.optim.optimizer import Optimizer
from rushlight.core.optim.sgd import SGD

__all__ = ["AdamW", "Optimizer", "SGD"]
