"""Spectrograms in bands of mels, computed in float64 on the host as feature extractors do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rushlight.models.audio.mel import mel_filters

Frames = npt.NDArray[np.float64]
_AT_ONCE = 4096  # frames


def htk_mels(hz: Frames, natural: bool = False) -> Frames:
    """Mels of frequencies in HTK's formula; natural: with Kaldi's constant and logarithm."""
    if natural:
        return np.asarray(1127.0 * np.log(1.0 + hz / 700.0))
    return np.asarray(2595.0 * np.log10(1.0 + hz / 700.0))


def htk_bank(count: int, bins: int, low: float, high: float, rate: int) -> Frames:
    """Triangles (count, bins) evenly spaced in HTK's mels, whose tops are 1.

    `bins` frequencies from 0 to half of `rate`; the triangles cover `low` to `high` Hz.
    """
    first, last = htk_mels(np.array([low, high])).tolist()
    mels = np.linspace(first, last, count + 2)
    corners = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    return _triangles(np.linspace(0, rate // 2, bins), corners)


def kaldi_bank(count: int, bins: int, low: float, high: float, rate: int) -> Frames:
    """Triangles (count, bins) that are straight in Kaldi's mels, whose tops are 1.

    Arguments as of `htk_bank`; `bins` is of the frequencies below half of `rate` and that one.
    """
    first, last = htk_mels(np.array([low, high]), True).tolist()
    corners = np.linspace(first, last, count + 2)
    step = rate / ((bins - 1) * 2)
    return _triangles(htk_mels(np.arange(bins) * np.float64(step), True), corners)


def slaney_bank(count: int, n_fft: int, low: float, high: float, rate: int) -> Frames:
    """`mel_filters` that cover `low` to `high` Hz: Slaney's mels, triangles of equal area."""
    if not low and high == rate / 2:
        return mel_filters(count, n_fft, rate)
    knee, step = 1000.0, 200 / 3

    def to_mel(hz: float) -> float:
        above = knee / step + np.log(max(hz, knee) / knee) * 27 / np.log(6.4)
        return float(hz / step if hz < knee else above)

    mels = np.linspace(to_mel(low), to_mel(high), count + 2)
    above = knee * np.exp(np.log(6.4) / 27 * (mels - knee / step))
    corners = np.where(mels < knee / step, mels * step, above)
    bank = _triangles(np.linspace(0, rate // 2, n_fft // 2 + 1), corners)
    return bank * (2 / (corners[2:] - corners[:-2]))[:, None]


def _triangles(at: Frames, corners: Frames) -> Frames:
    """(count, places): rise from one corner to the next, and fall to the third."""
    low, top, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    return np.asarray(
        np.maximum(0, np.minimum((at - low) / (top - low), (high - at) / (high - top)))
    )


def powers(
    samples: npt.NDArray[np.floating],
    window: Frames,
    hop: int,
    n_fft: int,
    emphasis: float | None = None,
) -> Frames:
    """The powers (frames, n_fft // 2 + 1) of frequencies under a window, every `hop` samples.

    emphasis: the mean of each frame is taken off, then this share of the sample before (Kaldi).
    Fewer samples than the window has give no frame.
    """
    length = len(window)
    if len(samples) < length:
        return np.zeros((0, n_fft // 2 + 1))
    views = np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]
    out = np.empty((len(views), n_fft // 2 + 1))
    for start in range(0, len(views), _AT_ONCE):
        frames = views[start : start + _AT_ONCE].astype(np.float64)
        if emphasis is not None:
            frames -= frames.mean(1, keepdims=True)
            frames[:, 1:] -= emphasis * frames[:, :-1]
            frames[:, 0] *= 1 - emphasis
        bins = np.fft.rfft(frames * window, n_fft)
        out[start : start + _AT_ONCE] = bins.real**2 + bins.imag**2
    return out


def periodic_hann(length: int) -> Frames:
    """Hann's window whose period is `length`."""
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length))


def kaldi_logs(
    samples: npt.NDArray[np.floating], bank: Frames, rate: int = 16000
) -> npt.NDArray[np.float32]:
    """Kaldi's filter bank features (frames, bands): 25 ms every 10 ms, natural logarithms.

    samples (n,) at `rate`. bank: `kaldi_bank`'s, of the next power of two of frequencies.
    """
    n_fft = 2 * (bank.shape[1] - 1)
    window = np.hanning(int(rate * 0.025))
    bands = powers(samples, window, int(rate * 0.01), n_fft, 0.97) @ bank.T
    return np.log(np.maximum(bands, 1.192092955078125e-07)).astype(np.float32)
