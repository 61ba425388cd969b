"""Audio of any length by windows that are cut at quiet places, for models without timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rushlight.models.audio.inputs import Sound, finite
from rushlight.models.generation.steps import Token
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.clips import parts_of
from rushlight.models.speech.words import rounded
from rushlight.models.tasks.record import Progress, Run

HOP = 160  # samples of 10 ms
# Seconds: a window is of at least and at most so many, but the last of a part, which is not less
# than REST where there is more before it.
LEAST, MOST, REST = 20, 30, 5
_QUIET = 20  # hops: a cut is in the middle of the quietest 0.2 s

Samples = npt.NDArray[np.float32]


def check_options(model: Any, options: Mapping[str, Any], taken: tuple[str, ...]) -> None:
    """Raise ValueError for an option that the model cannot follow and that is not its default.

    taken: the names of those that it follows, with any value.
    """
    from rushlight.models.tasks.registry import find

    task = find("automatic-speech-recognition")
    for option in task.options:
        value = options[option.name]
        greedy = option.name == "temperature" and value == 0  # as it is anyway
        if option.name not in taken and value != option.default and not greedy:
            raise ValueError(
                f"{task.name}: {option.name} {value!r} is not supported by "
                f"{model.config.model_type}, only {option.default!r}; it takes {', '.join(taken)}"
            )


def windows(samples: Sound, start: int, end: int) -> list[tuple[int, int]]:
    """Begins and ends of windows of samples start to end, cut where 0.2 s are quietest.

    It raises nothing.
    """
    spans, begin = [], start
    while end - begin > MOST * RATE:
        low = begin + LEAST * RATE
        high = min(begin + MOST * RATE, end - REST * RATE)
        cut = low + quietest(samples[low:high], 0, high - low)
        spans.append((begin, cut))
        begin = cut
    return [*spans, (begin, end)] if begin < end else spans


def quietest(samples: Samples, low: int, high: int) -> int:
    """Where the quietest 0.2 s between two samples are; of equal ones the last: windows are few.

    `low` and `high` are the two. Raises ValueError for less than 0.2 s.
    """
    piece = samples[low:high].astype(np.float64)
    hops = (piece[: len(piece) // HOP * HOP].reshape(-1, HOP) ** 2).sum(1)
    sums = np.concatenate([[0.0], np.cumsum(hops)])
    energy = sums[_QUIET:] - sums[:-_QUIET]
    best = len(energy) - 1 - int(energy[::-1].argmin())
    return low + (best + _QUIET // 2) * HOP


class WindowTranscriber:
    """Transcribes windows one by one; a kind of model says what is in one.

    options: those of the task automatic-speech-recognition; `taken` are followed, others raise.
    """

    taken: tuple[str, ...] = ("clips", "vad")
    language: str | None = None

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        check_options(model, options, self.taken)
        self.model, self.options = model, options
        self.segments: list[dict[str, Any]] = []

    def again(self) -> Self:
        """Begin another recording; captured steps stay."""
        self.segments = []
        return self

    def window(self, samples: Samples, start: float) -> Run:
        """The segments of one window that begins at `start` seconds; returns a list."""
        raise NotImplementedError

    def heard(self, samples: Sound, span: tuple[int, int], a: int, b: int) -> Run:
        """The segments of the window of samples a to b, within those of a span; returns a list."""
        piece = finite(samples[a:b])
        return (yield from self.window(piece, a / RATE)) if piece.any() else []

    def rest(self) -> list[dict[str, Any]]:
        """What is left to be said where a span ends."""
        return []

    def run(self, samples: Sound) -> Run:
        """Steps over samples (n,) at 16 kHz: progress, a token per segment; the result at the end.

        One window at a time is on the device. Windows of nothing but zeros have no text.
        """
        total = -(-len(samples) // HOP)
        clips = yield from parts_of(self.options, samples, total, MOST * RATE // HOP)
        for first, stop in clips:
            end = min(stop * HOP, len(samples))
            for a, b in windows(samples, first * HOP, end):
                segments = yield from self.heard(samples, (first * HOP, end), a, b)
                for segment in segments:
                    yield from self._told(segment)
                yield Progress("transcribe", b // RATE, -(-len(samples) // RATE))
            for segment in self.rest():
                yield from self._told(segment)
        return {
            "text": "".join(s["text"] for s in self.segments).strip(),
            "language": self.language,
            "duration": len(samples) / RATE,
            "segments": self.segments,
        }

    def _told(self, segment: dict[str, Any]) -> Run:
        """Note one segment, with times and probabilities to four places."""
        self.segments.append(rounded(segment))
        yield Token(-1, segment["text"], segment["probability"])
