"""Fine-tuning: examples of chats and texts, losses, heads, and a loop. `rl.finetune`."""

from rushlight.models.finetune.examples import (
    IGNORED,
    Batch,
    Example,
    examples_of,
    packed,
    padded,
    preference_of,
    read_rows,
)
from rushlight.models.finetune.heads import ClassificationHead, embed
from rushlight.models.finetune.losses import (
    causal_loss,
    dpo_loss,
    log_probabilities,
    ranking_loss,
)
from rushlight.models.finetune.training import finetune, finetuning, train

__all__ = [
    "IGNORED", "Batch", "ClassificationHead", "Example", "causal_loss", "dpo_loss", "embed",
    "examples_of", "finetune", "finetuning", "log_probabilities", "packed", "padded",
    "preference_of", "ranking_loss", "read_rows", "train",
]  # fmt: skip
