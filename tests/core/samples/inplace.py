"""Samples of the ops of core/ops/inplace.py."""

from __future__ import annotations

import numpy as np

from rushlight.core.tools.testing import draws

from .base import INF, NAN, Sample, Samples

SAMPLES: dict[str, Samples] = {}

SAMPLES["add_scaled"] = Samples(
    lambda x, y, scale: x + y * scale,
    "several",
    (
        Sample(
            "odd",
            (draws(1, (7, 13)), draws(2, (7, 13)) - 0.4, draws(3, (7, 13)) + 0.4),
            {},
            (0, 1, 2),
        ),
        Sample("empty", (draws(1, (0, 13)), draws(2, (0, 13)), draws(3, (0, 13)))),
        Sample("0-d", (np.array(0.3), np.array(0.5), np.array(0.7))),
        Sample(
            "nan",
            (
                np.array([1.0, NAN, 1.0, 5.0]),
                np.array([NAN, 0.0, 2.0, INF]),
                np.array([2.0, 1.0, NAN, 2.0]),
            ),
        ),
    ),
)
