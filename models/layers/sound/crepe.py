"""CREPE's network: convolutions over 64 ms of sound, and how bins of pitch are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.inputs import Sound
from rushlight.models.model import Model

WINDOW, BINS = 1024, 360
_EPS = 0.0010000000474974513
_FIRST, _STEP = 1997.3794084376191, 20.0  # cents over 10 Hz of the first bin, and of each more
_LAYERS = 6
_FARTHEST = 12  # bins that a pitch moves in a frame, at most
DECODERS = ("viterbi", "argmax", "weighted")
Values = npt.NDArray[np.float64]


class CrepeModel(Model):
    """Frames (n, 1024) of sound at 16 kHz -> the probability of each of 360 bins of pitch."""

    @nn.layers_on("meta")
    def __init__(self, config: Any) -> None:
        self.config, self.rate = config, 16000
        inside = 1
        for i, outside in enumerate(config.channels, 1):
            kernel, stride = ((512, 1), (4, 1)) if i == 1 else ((64, 1), (1, 1))
            setattr(self, f"conv{i}", nn.Conv2d(inside, outside, kernel, stride))
            setattr(self, f"conv{i}_BN", nn.BatchNorm2d(outside, _EPS))
            inside = outside
        self.classifier = nn.Linear(inside * 4, BINS)

    def forward(self, frames: Tensor) -> Tensor:
        """(n, 360) of frames (n, 1024) with mean 0 and deviation 1; ValueError for others."""
        if frames.ndim != 2 or frames.shape[1] != WINDOW:
            raise ValueError(
                f"{self.config.model_type}: frames are {frames.shape}; they must be (n, {WINDOW})"
            )
        x = frames.reshape(-1, 1, WINDOW, 1)
        for i in range(1, _LAYERS + 1):
            x = pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
            x = getattr(self, f"conv{i}_BN")(relu(getattr(self, f"conv{i}")(x)))
            x = max_pool2d(x, (2, 1), (2, 1))
        x = x.squeeze(3).transpose(1, 2).flatten(1)
        out: Tensor = self.classifier(x).sigmoid()
        return out

    def frames(self, samples: Sound, hop: int, first: int, stop: int) -> Tensor:
        """Frames first to stop - 1, (n, 1024), normalized, each about `hop` samples after another.

        `samples` (n,) at `rate` with silence before and after them; the middle of frame i is sample
        i * hop. It raises nothing of its own.
        """
        begin, end = first * hop - WINDOW // 2, (stop - 1) * hop + WINDOW // 2
        sound = np.asarray(samples[max(begin, 0) : max(end, 0)])
        before = max(-begin, 0)
        sound = np.pad(sound, (before, max(end - begin - before - len(sound), 0)))
        rows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::hop].astype(np.float64)
        rows = rows - rows.mean(1, keepdims=True)
        rows /= np.maximum(rows.std(1, ddof=1, keepdims=True), 1e-10)
        return tensor(rows.astype(np.float32), device=self.device).to(self.dtype)


def hz_of(bins: Values) -> Values:
    """The frequencies of bins, which may lie between two."""
    return np.asarray(10 * 2 ** ((_STEP * bins + _FIRST) / 1200))


def bin_of(hz: float) -> float:
    """The place of a frequency among the bins."""
    return float((1200 * np.log2(hz / 10) - _FIRST) / _STEP)


def pitches(
    probabilities: npt.NDArray[np.floating], low: float, high: float, decoder: str = "viterbi"
) -> tuple[Values, Values]:
    """Pitch in Hz and its probability, (n,) each, of probabilities (n, 360).

    `low` and `high`: the pitches in Hz that are allowed. decoder: "argmax" takes the likeliest bin,
    "weighted" the mean of those around it, "viterbi" the likeliest way through all frames, which
    moves by less than 240 cents in each. Without the noise that torchcrepe adds to bins. ValueError
    for a range with no bin.
    """
    first, last = int(max(np.floor(bin_of(low)), 0)), int(min(np.ceil(bin_of(high)), BINS))
    if last - first < 1:
        raise ValueError(f"pitch: no bin lies between {low:g} and {high:g} Hz")
    scores = np.full(probabilities.shape, -np.inf)
    scores[:, first:last] = probabilities[:, first:last]
    best = _way(scores) if decoder == "viterbi" else scores.argmax(1)
    sure = scores[np.arange(len(best)), best]
    if decoder != "weighted":
        return hz_of(best.astype(np.float64)), sure
    places = best[:, None] + np.arange(-4, 5)
    inside = np.clip(places, 0, BINS - 1)
    raw = np.where(places == inside, np.take_along_axis(scores, inside, 1), -np.inf)
    weights = 1 / (1 + np.exp(-raw))  # as torchcrepe, which takes probabilities for logits
    return hz_of((inside * weights).sum(1) / weights.sum(1)), sure


def _way(scores: Values) -> npt.NDArray[np.int64]:
    """The likeliest bins of frames (Viterbi, 1967), by a softmax of their scores."""
    raised = np.exp(scores - scores.max(1, keepdims=True))
    logs = np.log(raised / raised.sum(1, keepdims=True) + np.finfo(np.float64).tiny)
    apart = np.abs(np.arange(BINS)[:, None] - np.arange(BINS))
    moves = np.maximum(_FARTHEST - apart, 0.0)
    steps = np.log(moves / moves.sum(1, keepdims=True) + np.finfo(np.float64).tiny)
    total, before = logs[0], np.zeros(scores.shape, np.int64)
    for i in range(1, len(logs)):
        ways = total[:, None] + steps
        before[i] = ways.argmax(0)
        total = ways[before[i], np.arange(BINS)] + logs[i]
    best = np.empty(len(logs), np.int64)
    best[-1] = total.argmax()
    for i in range(len(logs) - 1, 0, -1):
        best[i - 1] = before[i, best[i]]
    return best
