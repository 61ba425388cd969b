"""Samples of the ops of core/ops/join.py."""

from __future__ import annotations

import numpy as np

from rushlight.core.tools.testing import draws

from .base import SPECIAL, Sample, Samples

SAMPLES: dict[str, Samples] = {}

SAMPLES["cat"] = Samples(
    lambda *xs, dim: np.moveaxis(
        np.array([r for x in xs for r in np.moveaxis(x, dim, 0)]).reshape(
            sum(x.shape[dim] for x in xs), *np.moveaxis(xs[0], dim, 0).shape[1:]
        ),
        0,
        dim,
    ),
    "exact",
    (
        Sample("odd", (draws(1, (3, 5)), draws(2, (3, 1)), draws(3, (3, 4))), {"dim": 1}),
        Sample("empty", (np.zeros((2, 0)), draws(2, (2, 3))), {"dim": 1}),
        Sample("all empty", (np.zeros((2, 0)), np.zeros((1, 0))), {"dim": 0}),
        Sample("nan", (SPECIAL, SPECIAL), {"dim": 0}),
        Sample("int", (np.arange(6).reshape(2, 3), np.arange(3).reshape(1, 3)), {"dim": 0}),
        Sample("gradient", (draws(1, (2, 2)), draws(2, (2, 1))), {"dim": 1}, grad=(0, 1)),
    ),
    layouts=("plain", "permuted", "sliced"),
    without={"0-d": "there is no dim to join along"},
)
