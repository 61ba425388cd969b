"""The network that tells voices: an LSTM over mel bands, whose last state is the voice's vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.functional.reductions import normalize
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.bands import periodic_hann, powers
from rushlight.models.audio.inputs import Sound
from rushlight.models.audio.mel import mel_filters
from rushlight.models.model import Model

_WINDOW, _HOP = 400, 160  # samples of a frame, and from one to the next
_FRAMES = 160  # of a piece
_AT_ONCE = 32  # pieces
_LOUD = -30.0  # dB of full scale, to which quieter recordings are raised


class VoiceEncoder(Model):
    """Mel bands (batch, frames, bands) -> vectors (batch, size) of length 1 that say who speaks."""

    @nn.layers_on("meta")
    def __init__(self, config: Any) -> None:
        c = self.config = config
        self.rate = c.sampling_rate
        self.lstm = nn.LSTM(c.num_mel_bins, c.hidden_size, c.num_hidden_layers, batch_first=True)
        self.linear = nn.Linear(c.hidden_size, c.embedding_size)

    def forward(self, bands: Tensor) -> Tensor:
        """Vectors (batch, size) of bands (batch, frames, bands); ValueError for another shape."""
        if bands.ndim != 3 or bands.shape[2] != self.config.num_mel_bins or 0 in bands.shape:
            raise ValueError(
                f"{self.config.model_type}: bands are {bands.shape}; they must be (batch, frames, "
                f"{self.config.num_mel_bins})"
            )
        _, (hidden, _) = self.lstm(bands)
        return normalize(relu(self.linear(hidden[-1])), dim=-1)

    def bands(self, samples: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """The powers (frames, bands) in mel bands of samples (n,), 100 frames a second."""
        padded = np.pad(samples, _WINDOW // 2)
        filters = mel_filters(self.config.num_mel_bins, _WINDOW, self.rate)
        mels = powers(padded, periodic_hann(_WINDOW), _HOP, _WINDOW) @ filters.T
        return mels.astype(np.float32)

    def voice(self, samples: Sound, pieces_a_second: float = 1.3, least: float = 0.75) -> Tensor:
        """The vector (size,), of length 1, of who speaks in `samples` (n,) at `rate`.

        The mean of the vectors of pieces of 1.6 s, `pieces_a_second` of them, the last one with
        silence at its end where `least` of it is sound. As Resemblyzer's `embed_utterance`. The
        recording is read by pieces. ValueError for fewer than 0.625 pieces a second.
        """
        starts = pieces_of(len(samples), self.rate, pieces_a_second, least)
        total: Tensor | None = None
        for first in range(0, len(starts), _AT_ONCE):
            group = starts[first : first + _AT_ONCE]
            # The frames on both sides of a piece reach half a window beyond it.
            begin, end = max(group[0] - 2, 0), group[-1] + _FRAMES + 2
            sound = np.asarray(samples[begin * _HOP : end * _HOP])
            sound = np.pad(sound, (0, (end - begin) * _HOP - len(sound)))
            rows = self.bands(sound)
            pieces = np.stack([rows[s - begin : s - begin + _FRAMES] for s in group])
            part = self(tensor(pieces, device=self.device).to(self.dtype)).sum(0)
            total = part if total is None else total + part
        assert total is not None
        return normalize(total, dim=-1)


def pieces_of(n: int, rate: int, a_second: float, least: float) -> list[int]:
    """The first frames of the pieces of n samples at `rate`: `a_second`, the last of `least`.

    ValueError for pieces that are too far apart to meet, or too many.
    """
    step = int(np.round(rate / a_second / _HOP)) if a_second > 0 else 0
    if not 0 < step <= _FRAMES:
        raise ValueError(
            f"voice: pieces_a_second is {a_second:g}; it must be {rate / (_HOP * _FRAMES):g} to "
            f"{rate / _HOP:g}"
        )
    frames = -(-(n + 1) // _HOP)
    starts = list(range(0, max(1, frames - _FRAMES + step + 1), step))
    covered = (n - starts[-1] * _HOP) / (_FRAMES * _HOP)
    return starts[:-1] if covered < least and len(starts) > 1 else starts


def raised(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Samples at -30 dB of full scale, where they are quieter and not silent."""
    loudness = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    level = 20 * np.log10(loudness) if loudness > 0 else 0.0
    return samples if level >= _LOUD else samples * np.float32(10 ** ((_LOUD - level) / 20))
