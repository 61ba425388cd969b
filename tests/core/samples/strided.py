"""Samples of the ops of core/ops/strided.py."""

from __future__ import annotations

import numpy as np

from .base import Samples, movement

SAMPLES: dict[str, Samples] = {}

SAMPLES["as_strided"] = movement(
    lambda x, shape, strides, offset: np.array(
        [
            x.reshape(-1)[offset + sum(i * s for i, s in zip(at, strides, strict=True))]
            for at in np.ndindex(*shape)
        ],
        x.dtype,
    ).reshape(shape),
    ((3, 5), {"shape": (2, 4), "strides": (5, 2), "offset": 1}),
    ((0, 3), {"shape": (0, 2), "strides": (1, 1), "offset": 0}),
    ((), {"shape": (2,), "strides": (0,), "offset": 0}),
    layouts=("plain",),
)
