"""Resampling by a windowed sinc."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.convolution import conv1d
from rushlight.core.ops.movement import pad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

ZEROS = 16  # of the sinc on either side
MOST_PHASES = 1000
ROLLOFF = 0.945  # the share of the lower rate's band that is kept


@lru_cache(8)
def _kernel(old: int, new: int) -> tuple[npt.NDArray[np.float32], int]:
    """Filters (new, 1, old + 2 reach): one for each place of a new sample between `old` ones."""
    band = min(old, new) * ROLLOFF
    reach = math.ceil(ZEROS * old / band)
    at = np.arange(-reach, reach + old)[None] / old - np.arange(new)[:, None] / new
    t = np.clip(at * band, -ZEROS, ZEROS)
    window = np.cos(t * np.pi / ZEROS / 2) ** 2  # Hann
    return (np.sinc(t) * window * band / old).astype(np.float32)[:, None], reach


def resample(x: Tensor, old_rate: int, new_rate: int) -> Tensor:
    """Samples (n,) or (batch, n) at another rate: ceil(n new / old) of them, on the same device.

    A sinc in a Hann window (J. O. Smith, Digital Audio Resampling, 2002) as one strided
    convolution with a filter per phase. ValueError for rates below 1.
    """
    if old_rate < 1 or new_rate < 1:
        raise ValueError(f"resample: rates {old_rate} and {new_rate} must be at least 1")
    if old_rate == new_rate:
        return x
    ratio = Fraction(new_rate, old_rate)
    # Rates with few common divisors would need millions of taps: the nearest ratio of small
    # numbers is off by less than 1 in 50,000.
    most = max(math.ceil(1 / ratio), int(MOST_PHASES * min(1.0, float(1 / ratio))))
    found = ratio.limit_denominator(most)
    old, new = found.denominator, found.numerator
    kernel, reach = _kernel(old, new)
    rows = x.reshape(-1, 1, x.shape[-1])
    count = -(-x.shape[-1] * new_rate // old_rate)
    # Enough for `count` samples, whose ratio may be rounded.
    padded = pad(rows, (reach, reach + old * (2 + count // (1000 * new))))
    made = conv1d(padded, tensor(kernel, device=x.device), stride=old)
    # (batch, new, steps) -> (batch, steps new)
    return made.transpose(1, 2).reshape(*x.shape[:-1], -1)[..., :count]
