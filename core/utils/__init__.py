"""What training programs use beside tensors: datasets and their batches, checkpoints."""

from rushlight.core.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
