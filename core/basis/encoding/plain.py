"""Encoders of the types with one scale, or a scale and a minimum, for 32 elements."""

from __future__ import annotations

import numpy as np

from rushlight.core.basis.encoding.block import Array, Blocks, Fields, as_f16, codes, halves
from rushlight.core.basis.encoding.block import inverse


def _largest(x: Array) -> Array:
    """The element of each block that is farthest from zero, with its sign."""
    most, least = x.max(axis=0), x.min(axis=0)
    return np.where(most >= -least, most, least)


def q4_0(b: Blocks) -> Fields:
    """The largest element is -8, the others the nearest of -8 to 7."""
    d = as_f16(_largest(b.x) / np.float32(-8))
    return {"d": d, "qs": halves(codes(b.x * inverse(d), -8, 7) + 8)}


def q8_0(b: Blocks) -> Fields:
    """The largest element is 127 or -127."""
    d = as_f16(np.abs(b.x).max(axis=0) / np.float32(127))
    return {"d": d, "qs": codes(b.x * inverse(d), -127, 127)}
