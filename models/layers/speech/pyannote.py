"""The network of pyannote's segmentation: who speaks in each frame of some seconds of sound.

Filters of two corner frequencies (SincNet, Ravanelli and Bengio, 2018), convolutions, an LSTM in
both directions. Classes are sets of speakers (Plaquet and Bredin, 2023), or speakers one by one.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.functional.network.activations import leaky_relu
from rushlight.core.functional.network.convolution import conv1d
from rushlight.core.functional.network.pooling import max_pool1d
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.speech.samples import check_samples
from rushlight.models.model import Model

_TAPS, _LEAST, _BAND = 251, 50.0, 50.0  # taps of a filter; Hz
_INNER, _POOLED = 5, 3


class SincFilters(nn.Module):
    """Band passes (2 * count, 1, 251): cosines, then sines, of the bands that are stored."""

    def __init__(self, count: int, rate: int) -> None:
        self.rate = rate
        self.low_hz_, self.band_hz_ = parameter(count, 1), parameter(count, 1)
        half = _TAPS // 2
        self._window = np.hamming(_TAPS)[:half].astype(np.float32)
        self._at = (2 * np.pi * np.arange(-half, 0) / rate)[None].astype(np.float32)

    def forward(self) -> Tensor:
        """The filters."""
        window, at = (tensor(x, device=self.low_hz_.device) for x in (self._window, self._at))
        low = self.low_hz_.float().abs() + _LEAST
        high = (low + _BAND + self.band_hz_.float().abs()).clamp(_LEAST, self.rate / 2)
        band = high - low
        first, last = low @ at, high @ at
        left = (last.sin() - first.sin()) / (at / 2) * window
        even = cat([left, 2 * band, left.flip(1)], 1)
        left = (first.cos() - last.cos()) / (at / 2) * window
        odd = cat([left, 0 * band, -left.flip(1)], 1)
        return (cat([even, odd]) / cat([2 * band, 2 * band])).unsqueeze(1)


class SegmentationModel(Model):
    """Samples (batch, n), 16000 a second, -> scores (batch, frames, classes).

    sets: the speakers of each class, () for none; speakers: how many a piece may have. seconds: of
    the pieces that the model was trained on.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any) -> None:
        c = self.config = config
        self.rate, self.seconds, self.speakers = c.sampling_rate, c.seconds, c.speakers
        self.sets: tuple[tuple[int, ...], ...] = tuple(
            chosen for n in range(c.together + 1) for chosen in combinations(range(c.speakers), n)
        )
        self.stride = c.sincnet_stride
        widths = (c.filters, c.channels, c.channels)
        put(self, "sincnet.wav_norm1d", nn.InstanceNorm1d(1, affine=True))
        put(self, "sincnet.conv1d.0.filterbank", SincFilters(c.filters // 2, c.sampling_rate))
        for i in (1, 2):
            put(self, f"sincnet.conv1d.{i}", nn.Conv1d(widths[i - 1], widths[i], _INNER))
        norms = [nn.InstanceNorm1d(width, affine=True) for width in widths]
        put(self, "sincnet.norm1d", nn.ModuleList(norms))
        self.lstm = nn.LSTM(
            c.channels, c.hidden_size, c.num_layers, batch_first=True, bidirectional=True
        )
        sizes = [2 * c.hidden_size, *[c.linear_size] * c.linear_layers]
        self.linear = nn.ModuleList(
            [nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True)]
        )
        classes = len(self.sets) if c.together else c.speakers
        self.classifier = nn.Linear(sizes[-1], classes)

    @property
    def step(self) -> int:
        """The samples from one frame to the next."""
        step: int = self.stride * _POOLED**3
        return step

    @property
    def least(self) -> int:
        """The samples that one frame is of."""
        n = 1
        for taps in (_INNER, _INNER, 0):
            n = n * _POOLED + (taps - 1 if taps else 0)
        least: int = (n - 1) * self.stride + _TAPS
        return least

    def frames(self, samples: int) -> int:
        """How many frames so many samples have."""
        return max(0, (samples - self.least) // self.step + 1)

    def forward(self, samples: Tensor) -> Tensor:
        """Scores (batch, frames, classes) of samples (batch, n): log probabilities of sets, or the
        probability of each speaker.

        ValueError for samples of another shape, or fewer than a frame has.
        """
        check_samples(self.config.model_type, samples, None, self.least)
        net: Any = self.get_submodule("sincnet")
        x = net.wav_norm1d(samples.to(float32).unsqueeze(1))
        filters = self.get_submodule("sincnet.conv1d.0.filterbank")()
        for i in range(3):
            x = conv1d(x, filters, stride=self.stride).abs() if i == 0 else self._conv(i, x)
            x = leaky_relu(net.norm1d[i](max_pool1d(x, _POOLED)))
        x, _ = self.lstm(x.transpose(1, 2))
        for layer in self.linear:
            x = leaky_relu(layer(x))
        x = self.classifier(x)
        return ops.log_softmax(x, -1) if self.config.together else x.sigmoid()

    def _conv(self, number: int, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(f"sincnet.conv1d.{number}")(x)
        return out

    def spoken(self, scores: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """Whether each speaker speaks (..., frames, speakers), by scores (..., frames, classes)."""
        if not self.config.together:
            return np.asarray(scores > 0.5)
        table = np.zeros((len(self.sets), self.speakers), np.bool_)
        for row, chosen in zip(table, self.sets, strict=True):
            row[list(chosen)] = True
        return np.asarray(table[scores.argmax(-1)])
