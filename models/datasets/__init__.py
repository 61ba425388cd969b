"""Datasets from files: idx, CIFAR, folders of images, CSV, JSONL, npz, Parquet; texts in blocks.

`rl.datasets`. They give samples to `rl.utils.data.DataLoader`, which also takes the datasets of
Hugging Face's library as they are. `transforms` change batches of images at random.
"""

from rushlight.models.datasets import transforms
from rushlight.models.datasets.cifar import CIFAR10, CIFAR100
from rushlight.models.datasets.images import MNIST, FashionMNIST, ImageFolder, read_idx
from rushlight.models.datasets.tables import Rows, Table, arrays, read_csv, read_jsonl, read_table
from rushlight.models.datasets.text import text_blocks

__all__ = [
    "CIFAR10", "CIFAR100", "FashionMNIST", "ImageFolder", "MNIST", "Rows", "Table", "arrays",
    "read_csv", "read_idx", "read_jsonl", "read_table", "text_blocks", "transforms",
]  # fmt: skip
