"""Biases of attention scores by the distance of two tokens: ALiBi, and learned buckets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import slopes_of

# Distances from here on share the last bucket.
_FARTHEST = 128


def alibi_bias(heads: int, length: int, device: Device) -> Tensor:
    """-slope * distance (Press et al., 2021), in both directions: (1, heads, length, length)."""
    at = np.arange(length)
    distance = np.abs(at[None] - at[:, None]).astype(np.float32)
    slopes = tensor(slopes_of(heads), device=device).reshape(1, -1, 1, 1)
    return slopes * tensor(-distance, device=device)


def relative_bias(table: Any, length: int) -> Tensor:
    """A learned number by head and bucket of distance (Raffel et al., 2020).

    table: an embedding (buckets, heads). Returns (1, heads, length, length). Half of the buckets
    are for each direction; half of those are for single distances, the others grow by a factor.
    """
    half = table.weight.shape[0] // 2
    exact = max(half // 2, 1)
    at = np.arange(length)
    distance = at[None] - at[:, None]
    far = np.maximum(np.abs(distance), 1).astype(np.float32)
    steps = np.log(far / np.float32(exact)) / math.log(_FARTHEST / exact) * (half - exact)
    large = np.minimum(exact + steps.astype(np.int64), half - 1)
    bucket = np.where(np.abs(distance) < exact, np.abs(distance), large) + half * (distance > 0)
    # (length, length, heads) -> (1, heads, length, length)
    found: Tensor = table(tensor(bucket, device=table.weight.device))
    return found.permute(2, 0, 1).unsqueeze(0)
