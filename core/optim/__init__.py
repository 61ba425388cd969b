"""Optimizers that update parameters in place, and schedules of their rates."""

from rushlight.core.optim import lr_scheduler
from rushlight.core.optim.adam import Adam, RMSprop
from rushlight.core.optim.adamw import AdamW
from rushlight.core.optim.optimizer import Optimizer
from rushlight.core.optim.sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "RMSprop", "SGD", "lr_scheduler"]
