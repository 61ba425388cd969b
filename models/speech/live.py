"""Transcription of speech while it is spoken: text that stays, and words that may yet change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.models.audio.files import Values
from rushlight.models.audio.inputs import Samples
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.loading import load
from rushlight.models.model import Model
from rushlight.models.speech.merge_transcripts import SENTENCE, Word, agreed, grouped, joint, spread
from rushlight.models.speech.split_windows import MOST, REST, quietest, windows
from rushlight.models.speech.tape import SILENCE, Tape, loudness, sounding
from rushlight.models.tasks.pipeline import parts
from rushlight.models.tasks.record import Run
from rushlight.models.tasks.registry import check_served, find

TASK = "automatic-speech-recognition"
SETTLED = 12  # seconds after which a window moves to the end of a sentence
UNTIMED = 18  # seconds after which one of a model without times is cut
FAINT = 0.1  # of the loudest of a window: what stays below it for a second is a pause
_REST = 0.05  # seconds that are not worth a look


@dataclass(frozen=True)
class LiveText:
    """What was heard so far.

    text: of the segments. Its words do not change; more follow them. segments: as those of the task
    automatic-speech-recognition, cut at ends of sentences and pauses; the last may get longer.
    tentative: the words after it, which may yet change. seconds: of audio that was heard. kept: how
    many segments are those of the look before.
    """

    segments: list[dict[str, Any]] = field(default_factory=list)
    tentative: list[Word] = field(default_factory=list)
    seconds: float = 0.0
    language: str | None = None
    kept: int = 0

    @property
    def text(self) -> str:
        """The text that stays."""
        return "".join(s["text"] for s in self.segments).strip()


class LiveTranscriber:
    """Hears audio in chunks: `push` each, then `end`; both give the `LiveText` so far.

    Once a second of audio the model hears what is not settled yet, at most 30 s. Words on which two
    looks agree stay (LocalAgreement-2 of Macháček et al., 2023). Memory does not grow with the
    audio, only with its text.
    """

    def __init__(
        self, model: str | Path | Model, *, rate: int = RATE, every: float = 1.0, **options: Any
    ) -> None:
        """model: one of the task automatic-speech-recognition, or its name, folder or hub id.

        rate: samples a second of the chunks. every: seconds of new audio that are worth a look.
        options: those of the task, such as language. ValueError for what the model does not follow.
        """
        if isinstance(rate, bool) or not 1 <= rate <= 1_000_000:
            raise ValueError(f"rate is {rate!r}; it must be 1 to 1000000 samples a second")
        if every <= 0:
            raise ValueError(f"every is {every}; it must be a positive number of seconds")
        self.model = model if isinstance(model, Model) else load(model)
        task = check_served(self.model, TASK)
        # Earlier text is not told: small models then leave out what comes next.
        defaults = {"condition": False} if "condition" in followed(self.model) else {}
        self.timed = "words" in followed(self.model)
        checked = task.checked({**defaults, **options, "words": self.timed})
        self._transcriber: Any = self.model.transcriber(checked)
        self._tape, self.every = Tape(int(rate)), every
        self._until = 0.0  # seconds: the audio before it is done
        self._said = 0.0  # seconds: words before it are in the segments
        self._known = 0  # words of the window that are in the segments
        self._asked = 0.0  # seconds that the last look saw
        self._segments: list[dict[str, Any]] = []
        self._tentative: list[Word] = []
        self._language: str | None = None
        self._kept = 0
        self._ended = False

    @property
    def seconds(self) -> float:
        """Seconds of audio so far."""
        return self._tape.count / self._tape.rate

    @property
    def heard(self) -> LiveText:
        """What was heard so far."""
        return LiveText(
            list(self._segments), list(self._tentative), self._asked, self._language, self._kept
        )

    def push(self, samples: npt.ArrayLike) -> LiveText:
        """Hear more samples (n,), floating, in [-1, 1]; ValueError for others, or after `end`."""
        self.take(samples)
        return self._run(False)

    def end(self) -> LiveText:
        """Hear the rest; nothing is tentative then."""
        return self._run(True)

    def _run(self, ended: bool) -> LiveText:
        steps = parts(self.steps(ended))
        try:
            while True:
                next(steps)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]

    def take(self, samples: npt.ArrayLike) -> None:
        """Note samples without hearing them."""
        chunk = np.asarray(samples)
        if self._ended:
            raise ValueError("the audio has ended; begin another LiveTranscriber")
        if chunk.ndim != 1 or chunk.dtype.kind != "f":
            raise ValueError(
                f"samples are {chunk.dtype} of shape {chunk.shape}; they must be floating numbers "
                "of one dim (mix channels by their mean)"
            )
        if len(chunk):
            self._tape.add(np.nan_to_num(chunk.astype(np.float32), nan=0.0, posinf=0, neginf=0))

    def steps(self, ended: bool = False) -> Run:
        """The steps of hearing what was taken; ended: all of it. Returns the `LiveText`."""
        self._kept, unchanged = len(self._segments), len(self._segments)
        while (yield from self.step(ended)):
            unchanged = min(unchanged, self._kept)
        self._kept = min(unchanged, self._kept)
        return self.heard

    def step(self, ended: bool = False) -> Run:
        """The steps of one look, or of one part of what is behind; returns whether there is more.

        ended: the audio is complete.
        """
        self._ended = self._ended or ended
        self._kept = len(self._segments)
        left = self.seconds - self._until
        if left > MOST or (ended and left >= _REST):
            yield from self._part(left > MOST)
        elif not ended and self.seconds - self._asked >= self.every:
            yield from self._look()
        self._tape.forget(int((self._until - 1) * self._tape.rate))
        left = self.seconds - self._until
        if left > MOST or (ended and left >= _REST):
            return True
        if ended:
            self._tentative, self._asked = [], self.seconds
        return False

    def _read(self, end: float) -> Values:
        """The samples from what is done to `end` seconds."""
        return Samples(self._tape, RATE)[round(self._until * RATE) : round(end * RATE)]

    def _part(self, more: bool) -> Run:
        """Hear the next part for good, cut at a quiet place if there is more after it."""
        samples = self._read(min(self.seconds, self._until + MOST + REST))
        if more:
            samples = samples[: windows(samples, 0, len(samples))[0][1]]
        yield from self._settled(samples, self._until + len(samples) / RATE if more else None)

    def _settled(self, samples: Values, until: float | None) -> Run:
        """Hear samples for good; until: where the next window begins, None for the end."""
        words, known = yield from self._words(samples)
        self._add(words[known:])
        self._known = max(0, self._known - len(words))
        self._tentative, self._until = [], self.seconds if until is None else until
        self._asked = max(self._asked, self._until)

    def _look(self) -> Run:
        """Hear the window so far: what the look before heard too stays."""
        to = self._asked = self.seconds
        samples, begin = self._read(to), self._until
        words, known = yield from self._words(samples)
        count = known + agreed(self._tentative, words[known:])
        self._add(words[known:count])
        self._known, self._tentative = count, words[count:]
        loud = loudness(samples)
        hush = max(SILENCE, FAINT * loud.max(initial=0.0))
        if not self._tentative and loud[-20:].max(initial=0.0) < hush and to - begin > 1:
            self._until, self._known = to - 0.5, 0
        elif self.timed:
            self._move(to - begin)
        elif to - begin > UNTIMED:
            cut = quietest(samples, len(samples) // 2, len(samples) - RATE)
            yield from self._settled(samples[:cut], begin + cut / RATE)

    def _words(self, samples: Values) -> Run:
        """The words of the window's samples, and how many of them are in the segments already.

        Silence at the ends is cut off, as models write words there or give it to the first word.
        """
        begin, end = sounding(samples)
        if begin == end:
            return [], 0
        result = yield from self._transcriber.again().run(samples[begin:end])
        self._language = result["language"]
        shift, words = self._until + begin / RATE, list[Word]()
        for segment in result["segments"]:
            for word in segment["words"] if self.timed else spread(segment):
                word["start"] += shift
                word["end"] += shift
                words.append(word)
        known = min(self._known, len(words))
        if self.timed:
            known = sum((word["start"] + word["end"]) / 2 <= self._said for word in words)
        return words, joint(words, self._segments, known)

    def _add(self, words: Sequence[Word]) -> None:
        """Words that stay, joined to the last segment if its sentence goes on."""
        if not words:
            return
        last = self._segments[-1] if self._segments else None
        words = list(words)
        if last is not None and not SENTENCE.search(last["text"]):
            words = self._segments.pop()["words"] + words
        self._kept = min(self._kept, len(self._segments))
        self._segments += grouped(words)
        self._said = max(self._said, self._segments[-1]["end"])

    def _move(self, length: float) -> None:
        """Begin the window at the end of a sentence, or of a word if it is long."""
        ends = [s["end"] for s in self._segments if SENTENCE.search(s["text"])]
        if length >= 2 * SETTLED:
            self._until = max(self._until, self._said)
        elif length >= SETTLED and ends:
            self._until = max(self._until, ends[-1])


def followed(model: Any) -> frozenset[str]:
    """The names of the options that a model follows."""
    task = find(TASK)
    return task.names if task.follows is None else frozenset(task.follows(model))
