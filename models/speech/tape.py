"""Sound that arrives in chunks, and how loud it is."""

from __future__ import annotations

import numpy as np

from rushlight.models.audio.files import Values
from rushlight.models.layers.speech.samples import RATE

# A sound: half the distance of the least and largest sample of 50 ms is at least this, -48 dB.
SILENCE = 0.004
_STEP, _MARGIN = RATE // 20, 3 * RATE // 10


class Tape:
    """A `Source` that grows at its end, and forgets its beginning."""

    def __init__(self, rate: int) -> None:
        self.rate, self.count, self._first = rate, 0, 0
        self._chunks: list[Values] = []

    def add(self, samples: Values) -> None:
        """Put samples (n,) at the end."""
        self._chunks.append(samples)
        self.count += len(samples)

    def forget(self, before: int) -> None:
        """Drop chunks that lie before a sample."""
        while self._chunks and self._first + len(self._chunks[0]) <= before:
            self._first += len(self._chunks.pop(0))

    def read(self, start: int, stop: int) -> Values:
        """Samples start to stop, those that are forgotten as zeros."""
        samples = np.zeros(max(0, stop - start), np.float32)
        begin = self._first
        for chunk in self._chunks:
            low, high = max(start, begin), min(stop, begin + len(chunk))
            if low < high:
                samples[low - start : high - start] = chunk[low - begin : high - begin]
            begin += len(chunk)
        return samples


def loudness(samples: Values) -> Values:
    """Half the distance of the least and largest sample of each 50 ms."""
    steps = samples[: len(samples) // _STEP * _STEP].reshape(-1, _STEP)
    half_ranges: Values = (steps.max(1) - steps.min(1)) / 2
    return half_ranges


def sounding(samples: Values) -> tuple[int, int]:
    """Where samples begin and end to sound, with 0.3 s around it; 0, 0 for silence."""
    loud = np.flatnonzero(loudness(samples) >= SILENCE)
    if not len(loud):
        return 0, 0
    begin, end = int(loud[0]) * _STEP, (int(loud[-1]) + 1) * _STEP
    return max(0, begin - _MARGIN), min(len(samples), end + _MARGIN)
