"""Samples of the ops of core/ops/rotary.py."""

from __future__ import annotations

import numpy as np

from rushlight.core.tools.testing import draws

from .base import INF, NAN, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _loop_rope(x: Array, cos: Array, sin: Array, *, interleaved: bool) -> Array:
    out, half = x.copy(), cos.shape[-1]
    for i in range(half):
        p, q = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        out[..., p] = x[..., p] * cos[..., i] - x[..., q] * sin[..., i]
        out[..., q] = x[..., q] * cos[..., i] + x[..., p] * sin[..., i]
    return out


_HALF = np.array([[NAN, 1.0, 2.0, INF, 0.5, 1.0]])
SAMPLES["rope"] = Samples(_loop_rope, "product", (
    Sample("odd", (draws(1, (3, 5, 6)), draws(2, (3, 5, 3)), draws(3, (3, 5, 3))),
           {"interleaved": False}),
    Sample("interleaved", (draws(1, (5, 7)), draws(2, (5, 2)), draws(3, (5, 2))),
           {"interleaved": True}),
    Sample("partial", (draws(1, (5, 7)), draws(2, (5, 2)), draws(3, (5, 2))),
           {"interleaved": False}),
    Sample("empty", (np.zeros((0, 6)), np.zeros((0, 3)), np.zeros((0, 3))), {"interleaved": False}),
    Sample("nan", (_HALF, draws(2, (1, 3)), draws(3, (1, 3))), {"interleaved": False}),
    Sample("gradient", (draws(1, (2, 5)), draws(2, (2, 2)), draws(3, (2, 2))),
           {"interleaved": False}, grad=(0, 1, 2)),
    Sample("gradient interleaved", (draws(1, (2, 4)), draws(2, (2, 2)), draws(3, (2, 2))),
           {"interleaved": True}, grad=(0, 1, 2)),
), without={"0-d": "there is no dim to normalise"})  # fmt: skip
