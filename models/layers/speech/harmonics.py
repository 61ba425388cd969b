"""A source of harmonics for vocoders (Wang et al., 2019), and samples of spectrograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.network.convolution import conv_transpose1d
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
HARMONICS = 9  # the pitch and its multiples up to this
_LOUD, _NOISE = 0.1, 0.003  # of sines, and of the noise in them
_LEAST = 10  # Hz, below which nothing is voiced


def _window(size: int) -> npt.NDArray[np.float64]:
    """Hann's window, of which the last value of a symmetric one is left out."""
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)


def source(
    pitch: Array,
    scale: int,
    rate: int,
    linear: tuple[Array, Array],
    noise: Array | None,
    stft: tuple[int, int],
) -> npt.NDArray[np.float64]:
    """The magnitudes and phases (2 * (size // 2 + 1), frames) of harmonics of a pitch.

    pitch (n,): Hz, each for `scale` samples of `rate` a second. linear: the weights (9,) and the
    bias (1,) by which harmonics become one sound. noise: normal numbers (n * scale, 9), or None.
    stft: the size of a frame, and the step. The phase of harmonics begins at 0.
    """
    pitch = np.asarray(pitch, np.float64)
    turns = np.cumsum(pitch[:, None] / rate * np.arange(1, HARMONICS + 1) % 1, 0) * scale
    count = len(pitch) * scale
    at = np.clip((np.arange(count) + 0.5) / scale - 0.5, 0, len(pitch) - 1)
    low = at.astype(np.intp)
    share = (at - low)[:, None]
    high = np.minimum(low + 1, len(pitch) - 1)
    sines = np.sin(2 * np.pi * (turns[low] * (1 - share) + turns[high] * share))
    voiced = np.repeat(pitch > _LEAST, scale)[:, None]
    waves = np.where(voiced, _LOUD * sines, 0.0)
    if noise is not None:
        waves = waves + np.where(voiced, _NOISE, _LOUD / 3) * noise
    weight, bias = linear
    sound = np.tanh(waves @ np.asarray(weight, np.float64) + np.asarray(bias, np.float64))
    size, step = stft
    wide = np.pad(sound, size // 2, "reflect")
    frames = np.lib.stride_tricks.sliding_window_view(wide, size)[::step]
    spectrum = np.fft.rfft(frames * _window(size), axis=1).T
    # The first frame is its own mirror: it has real values, whose phase is 0 or pi, not -pi.
    spectrum.imag[np.abs(spectrum.imag) <= 1e-12 * np.abs(spectrum)] = 0.0
    return np.concatenate([np.abs(spectrum), np.angle(spectrum)])


def resynthesis(x: Tensor, size: int, step: int) -> Tensor:
    """Samples (batch, (n - 1) * step) of a spectrogram (batch, size + 2, n): logs of magnitudes,
    and what phases are the sines of.

    `size` and `step` are of its frames, in samples; where frames overlap they are averaged by
    squares of the window.
    """
    bins = size // 2 + 1
    loud, phase = x[:, :bins].exp(), x[:, bins:].sin()
    return overlapped(loud, phase, size, step, size // 2)


def overlapped(loud: Tensor, phase: Tensor, size: int, step: int, edge: int) -> Tensor:
    """Samples (batch, (n - 1) * step + size - 2 * edge) of magnitudes and phases (batch, bins, n).

    `size` and `step` are of frames, in samples. edge: the samples that are cut on both sides.
    """
    parts, bins = cat([loud * phase.cos(), loud * phase.sin()], 1), size // 2 + 1
    window, units = _window(size), np.eye(bins)
    basis = np.concatenate([np.fft.irfft(units, size), np.fft.irfft(1j * units, size)]) * window
    kernel = tensor(basis[:, None].astype(np.float32), device=loud.device).to(loud.dtype)
    sound = conv_transpose1d(parts, kernel, stride=step)[:, 0]
    n = loud.shape[2]
    total = np.zeros((n - 1) * step + size)
    for i, part in enumerate(window**2):
        total[i : i + (n - 1) * step + 1 : step] += part
    scale = 1 / total[edge : len(total) - edge].clip(min=1e-11)
    factor = tensor(scale.astype(np.float32), device=loud.device).to(loud.dtype)
    return sound[:, edge : sound.shape[1] - edge] * factor
