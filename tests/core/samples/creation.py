"""Samples of the ops of core/ops/creation.py."""

from __future__ import annotations

import numpy as np

import rushlight as rl

from .base import Sample, Samples

SAMPLES: dict[str, Samples] = {}

SAMPLES["arange"] = Samples(
    lambda *, start, step, count, dtype: np.array([start + i * step for i in range(count)]),
    "exact",
    (
        Sample("odd", (), dict(start=3, step=-2, count=7, dtype=rl.int64)),
        Sample("empty", (), dict(start=3, step=1, count=0, dtype=rl.float32)),
        Sample("float", (), dict(start=0.5, step=0.25, count=13, dtype=rl.float32)),
        Sample("large", (), dict(start=2**53 + 1, step=1, count=3, dtype=rl.int64)),
    ),
    without={"0-d": "the result has one dim", "nan": "there is no input"},
)
