"""Optimizers that update parameters in place, and schedules of their rates."""

from rushlight.core.optim import lr_scheduler, swa_utils
from rushlight.core.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam, SparseAdam
from rushlight.core.optim.adaptive import Adadelta, Adagrad, RMSprop
from rushlight.core.optim.lbfgs import LBFGS
from rushlight.core.optim.matrices import Adafactor, Muon
from rushlight.core.optim.optimizer import Optimizer
from rushlight.core.optim.sgd import ASGD, SGD
from rushlight.core.optim.signs import Lion, Rprop

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Lion", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler",
    "swa_utils",
]  # fmt: skip
