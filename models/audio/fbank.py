"""Kaldi's filter banks (Povey et al., 2011): logarithms of energies on the mel scale."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

WINDOW, HOP, N_FFT, RATE = 400, 160, 512, 16000  # samples: 25 ms, 10 ms
LOW = 20.0  # Hz
_EMPHASIS, _FLOOR = 0.97, 1.192092955078125e-07
# Frames whose spectra are in memory at once.
_TOGETHER = 2048

Features = npt.NDArray[np.float32]


def _mel(hz: Any) -> Any:
    return 1127.0 * np.log(1.0 + hz / 700.0)


@lru_cache(4)
def filters(bins: int) -> npt.NDArray[np.float64]:
    """Triangles (257, bins) evenly spaced in mels from 20 Hz to 8000 Hz, straight in mels.

    `bins` is their number. It raises nothing of its own.
    """
    edges = np.linspace(float(_mel(LOW)), float(_mel(RATE / 2)), bins + 2)
    at = np.asarray(_mel(np.arange(N_FFT // 2 + 1) * (RATE / N_FFT)))[:, None]
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.asarray(np.maximum(0, np.minimum(rising, falling)))


def fbank(samples: npt.NDArray[np.float32], bins: int = 80) -> Features:
    """Logarithms of the energies (frames, bins) of samples (n,) from -1 to 1, 16000 a second.

    Frames of 25 ms every 10 ms, none of which reaches past the end: fewer than 400 samples give
    none. Each is freed of its mean and emphasized, in a Povey window. float32. It raises nothing.
    """
    frames = max(0, 1 + (len(samples) - WINDOW) // HOP)
    features = np.zeros((frames, bins), np.float32)
    # A Hann window to the power of 0.85.
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / (WINDOW - 1))) ** 0.85
    for first in range(0, frames, _TOGETHER):
        count = min(_TOGETHER, frames - first)
        piece = samples[first * HOP : (first + count - 1) * HOP + WINDOW].astype(np.float64) * 2**15
        waves = np.lib.stride_tricks.sliding_window_view(piece, WINDOW)[::HOP]
        waves = waves - waves.mean(1, keepdims=True)
        before = np.concatenate([waves[:, :1], waves[:, :-1]], 1)
        powers = np.abs(np.fft.rfft((waves - _EMPHASIS * before) * window, N_FFT)) ** 2
        energies = np.maximum(_FLOOR, powers @ filters(bins))
        features[first : first + count] = np.log(energies)
    return features


def scaled_bins(features: Features) -> Features:
    """Features (frames, bins) with mean 0 and variance 1 of each bin over time, n - 1 its divisor.

    It raises nothing; a single frame gives zeros.
    """
    if len(features) < 2:
        return np.zeros_like(features)
    wide = features.astype(np.float64)
    spread = np.sqrt(wide.var(0, ddof=1) + 1e-7)
    return np.asarray((wide - wide.mean(0)) / spread, np.float32)
