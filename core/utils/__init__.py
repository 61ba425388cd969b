"""What training programs use beside tensors: datasets and their batches."""

from rushlight.core.utils import data

__all__ = ["data"]
