"""Training: a loop with validation, checkpoints and callbacks; metrics; logs. `rl.training`."""

from rushlight.core.training.callbacks import (
    Callback,
    EarlyStopping,
    EventCallback,
    ModelCheckpoint,
    ProgressBar,
)
from rushlight.core.training.loggers import CSVLogger, JSONLLogger, TensorBoardLogger
from rushlight.core.training.metrics import (
    AUROC,
    Accuracy,
    ConfusionMatrix,
    F1Score,
    Metric,
    Perplexity,
)
from rushlight.core.training.module import LightningModule
from rushlight.core.training.trainer import Trainer

__all__ = [
    "AUROC", "Accuracy", "CSVLogger", "Callback", "ConfusionMatrix", "EarlyStopping",
    "EventCallback", "F1Score", "JSONLLogger", "LightningModule", "Metric", "ModelCheckpoint",
    "Perplexity", "ProgressBar", "TensorBoardLogger", "Trainer",
]  # fmt: skip
