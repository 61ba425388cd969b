"""Resampling by a windowed sinc."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.network.convolution import conv1d
from rushlight.core.ops.movement import pad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.files import Source, Values

ZEROS = 16  # of the sinc on either side
MOST_PHASES = 1000
MOST_TIMES = 1000  # that one rate may be the other
ROLLOFF = 0.945  # the share of the lower rate's band that is kept


@lru_cache(8)
def _kernel(old: int, new: int) -> tuple[npt.NDArray[np.float32], int]:
    """Filters (new, 1, old + 2 reach): one for each place of a new sample between `old` ones."""
    band = min(old, new) * ROLLOFF
    reach = math.ceil(ZEROS * old / band)
    times = np.arange(-reach, reach + old)[None] / old - np.arange(new)[:, None] / new
    t = np.clip(times * band, -ZEROS, ZEROS)
    window = np.cos(t * np.pi / ZEROS / 2) ** 2  # Hann
    return (np.sinc(t) * window * band / old).astype(np.float32)[:, None], reach


def resample(x: Tensor, old_rate: int, new_rate: int) -> Tensor:
    """Samples (n,) or (batch, n) at another rate: ceil(n new / old) of them, on the same device.

    A sinc in a Hann window (J. O. Smith, Digital Audio Resampling, 2002) as one strided
    convolution with a filter per phase. ValueError for rates below 1, and for
    one that is more than 1000 times the other.

    `x` has `old_rate` samples a second, the result `new_rate`; its dtype is floating. Raises
    ValueError for such rates.
    """
    if old_rate == new_rate and old_rate >= 1:
        return x
    old, new, kernel, reach = _phases(old_rate, new_rate)
    rows = x.reshape(-1, 1, x.shape[-1])
    count = -(-x.shape[-1] * new_rate // old_rate)
    # Enough for `count` samples, whose ratio may be rounded.
    padded = pad(rows, (reach, reach + old * (2 + count // (1000 * new))))
    phases = conv1d(padded, tensor(kernel, device=x.device), stride=old)
    # (batch, new, steps) -> (batch, steps new)
    return phases.transpose(1, 2).reshape(*x.shape[:-1], -1)[..., :count]


def resampled(source: Source, start: int, stop: int, rate: int) -> Values:
    """Samples start to stop of `resample` of the whole source, of which it reads a part."""
    old, new, kernel, reach = _phases(source.rate, rate)
    first, last = start // new, -(-stop // new)  # the steps of the convolution
    low, high = first * old - reach, last * old + reach
    samples = np.zeros(high - low, np.float32)
    a, b = max(low, 0), min(high, source.count)
    if a < b:
        samples[a - low : b - low] = source.read(a, b)
    phases = conv1d(tensor(samples[None, None]), tensor(kernel), stride=old)
    new_samples: Values = phases[0].T.reshape(-1).numpy()
    return new_samples[start - first * new : stop - first * new]


def _phases(old_rate: int, new_rate: int) -> tuple[int, int, Values, int]:
    """Samples of a step before and after, the filters, and how far they reach."""
    if old_rate < 1 or new_rate < 1:
        raise ValueError(f"resample: rates {old_rate} and {new_rate} must be at least 1")
    if max(old_rate, new_rate) > MOST_TIMES * min(old_rate, new_rate):
        raise ValueError(
            f"resample: {old_rate} and {new_rate} samples a second are more than {MOST_TIMES} "
            "times apart; resample in two steps, if that is meant"
        )
    ratio = Fraction(new_rate, old_rate)
    # Rates with few common divisors would need millions of taps: the nearest ratio of small
    # numbers is off by less than 1 in 50,000.
    most = max(math.ceil(1 / ratio), int(MOST_PHASES * min(1.0, float(1 / ratio))))
    fraction = ratio.limit_denominator(most)
    kernel, reach = _kernel(fraction.denominator, fraction.numerator)
    return fraction.denominator, fraction.numerator, kernel, reach
