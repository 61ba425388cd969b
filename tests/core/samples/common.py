"""Samples of the ops of core/ops/common.py."""

from __future__ import annotations

import numpy as np

import rushlight as rl

from .base import INF, NAN, Samples, created

SAMPLES: dict[str, Samples] = {}

SAMPLES["full"] = Samples(
    lambda *, shape, value, dtype: np.full(shape, value),
    "exact",
    (
        created("odd", (7, 13), value=2.5, dtype=rl.float32),
        created("empty", (0, 3), value=1, dtype=rl.int32),
        created("0-d", (), value=True, dtype=rl.bool),
        created("nan", (3,), value=NAN, dtype=rl.bfloat16),
        created("inf", (3,), value=-INF, dtype=rl.float16),
        created("int64", (3,), value=2**62 + 1, dtype=rl.int64),
    ),
)
