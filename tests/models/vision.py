"""The table of image families: tiny configurations, and parameters by a seed.

A row's goldens lie in data/vision/ROW.safetensors; tests/parity/make_vision_goldens.py makes them
with the published implementation. A row: the library, the name of its model, the settings, and the
height and width of the pixels. Settings of transformers are config.json, those of timm are
arguments of create_model, those of torchvision arguments of its class or function.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Row = tuple[str, str, dict[str, Any], tuple[int, int]]
_LABELS: dict[str, Any] = {"num_labels": 5}
_RESNET: dict[str, Any] = {"embedding_size": 10, "hidden_sizes": [16, 24], "depths": [2, 1]}

# Odd sizes, so that nothing agrees by accident.
ROWS: dict[str, Row] = {
    "resnet": ("transformers", "ResNetForImageClassification", _RESNET | _LABELS, (45, 38)),
    "resnet-basic": (
        "transformers", "ResNetModel", _RESNET | {
            "layer_type": "basic", "downsample_in_first_stage": True, "hidden_act": "gelu",
        }, (33, 50),
    ),
    "resnet-early": (
        "transformers", "ResNetForImageClassification",
        _RESNET | _LABELS | {"downsample_in_bottleneck": True}, (32, 32),
    ),
    "resnet-timm": ("timm", "resnet18", {"num_classes": 7}, (64, 50)),
    "resnet-torchvision": ("torchvision", "resnet50", {"num_classes": 6}, (50, 64)),
}  # fmt: skip


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The parameter `name` of a row: variances are positive, products keep their size."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    kind = name.rpartition(".")[2]
    if kind == "num_batches_tracked":
        return np.zeros(shape, np.int64)
    if kind == "running_var":
        return draw.uniform(0.5, 1.5, shape).astype(np.float32)
    values = draw.standard_normal(shape).astype(np.float32)
    if len(shape) < 2:
        offset = 0.0 if kind in ("running_mean", "bias") or not shape else 1.0
        return np.asarray(values * 0.1 + offset, np.float32)
    return values * np.float32(1.2 / math.sqrt(math.prod(shape[1:])))


def pixels_of(size: tuple[int, int], channels: int = 3) -> npt.NDArray[np.float32]:
    """Normalized pixels (2, channels, height, width)."""
    found = np.random.default_rng(7).standard_normal((2, channels, *size))
    return found.astype(np.float32)
