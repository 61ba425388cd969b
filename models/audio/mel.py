"""Mel spectrograms as products, which every device has: no complex numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

_STEP, _KNEE = 200 / 3, 1000.0  # Hz a mel below the knee
_LOG = np.log(6.4) / 27  # of the frequency, a mel above it


def _to_mel(hz: float) -> float:
    return float(hz / _STEP if hz < _KNEE else _KNEE / _STEP + np.log(hz / _KNEE) / _LOG)


def mel_filters(count: int, n_fft: int, rate: int) -> npt.NDArray[np.float64]:
    """Triangles (count, n_fft // 2 + 1) evenly spaced in mels from 0 to rate / 2, of equal area.

    The scale is that of Slaney's Auditory Toolbox (1998): linear below 1000 Hz, then logarithmic.

    `count` filters of `n_fft` samples at `rate`, in float64. It raises nothing of its own.
    """
    mels = np.linspace(0, _to_mel(rate / 2), count + 2)
    hz = np.where(mels < _KNEE / _STEP, mels * _STEP, _KNEE * np.exp(_LOG * (mels - _KNEE / _STEP)))
    frequencies = np.linspace(0, rate / 2, n_fft // 2 + 1)
    low, top, high = hz[:-2, None], hz[1:-1, None], hz[2:, None]
    rising, falling = (frequencies - low) / (top - low), (high - frequencies) / (high - top)
    filters: npt.NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)
    return filters


class LogMel:
    """Whisper's features (Radford et al., 2022): samples (n,) -> (n_mels, n // hop) float32.

    Powers of the frequencies of `n_fft` samples in a Hann window, every `hop` samples, in mel
    filters; log10, at most 8 below the largest, then (x + 4) / 4. On the samples' device.

    `rate` is the samples per second. A call raises ValueError for samples that are too few.
    """

    def __init__(
        self, n_mels: int = 80, n_fft: int = 400, hop: int = 160, rate: int = 16000
    ) -> None:
        self.n_mels, self.n_fft, self.hop, self.rate = n_mels, n_fft, hop, rate
        n = np.arange(n_fft)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * n / n_fft)
        angle = 2 * np.pi * np.outer(n, np.arange(n_fft // 2 + 1)) / n_fft
        self._waves = (window[:, None] * np.concatenate([np.cos(angle), np.sin(angle)], 1)).astype(
            np.float32
        )
        self._filters = mel_filters(n_mels, n_fft, rate).T.astype(np.float32)
        self._held: dict[object, tuple[Tensor, Tensor]] = {}

    def __call__(self, samples: Tensor) -> Tensor:
        """The features of samples (n,) at `rate`; ValueError for fewer than half a window."""
        if samples.ndim != 1 or len(samples) <= self.n_fft // 2:
            raise ValueError(
                f"LogMel: samples are {samples.shape}; they must be one dim of more than "
                f"{self.n_fft // 2}"
            )
        device = samples.device
        if device not in self._held:
            waves, filters = (tensor(a, device=device) for a in (self._waves, self._filters))
            self._held[device] = waves, filters
        waves, filters = self._held[device]
        half = self.n_fft // 2
        padded = pad(samples.reshape(1, 1, -1), (half, half), "reflect").reshape(-1)
        frames = padded.unfold(0, self.n_fft, self.hop)[: len(samples) // self.hop]
        parts = (frames @ waves).square()
        bins = half + 1
        powers = parts[:, :bins] + parts[:, bins:]
        logs = (powers @ filters).clamp(min=1e-10).log10()
        logs = logs.maximum(logs.max() - 8.0)
        features: Tensor = ((logs + 4.0) / 4.0).T.contiguous()
        return features
