"""Transcription by a CTC head: tokens of frames, and so the times of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rushlight.core import ops
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.inputs import Sound, finite
from rushlight.models.layers.speech.letters import Letter
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.beam import WIDTH, BeamSearch
from rushlight.models.speech.ngrams import read_arpa
from rushlight.models.speech.split_windows import WindowTranscriber
from rushlight.models.tasks.record import Run

Frames = npt.NDArray[np.float32]

PAUSE = 0.7  # seconds between words that end a segment
CONTEXT = 2  # seconds that are heard on each side of a window, and not written


class CTCTranscriber(WindowTranscriber):
    """CTC decoding of a `WaveModel`: the likeliest token of each frame (Graves et al., 2006), or
    the likeliest texts by beam search, with a model of n-grams.

    Windows overlap, and a word that reaches over a cut is written once. A segment ends at a pause
    of 0.7 s. ValueError for a model without a head or a vocabulary.
    """

    taken: tuple[str, ...] = ("words", "clips", "vad", "beam_width", "lm", "alpha", "beta")

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        super().__init__(model, options)
        name = model.config.model_type
        if not model.head:
            raise ValueError(f"{name}: the checkpoint has no CTC head, lm_head; load one that has")
        if model.letters is None:
            raise ValueError(f"{name}: the checkpoint has no vocabulary; add its vocab.json")
        if options["words"] and not model.letters.words:
            raise ValueError(f"{name}: words have no times: no token of vocab.json divides them")
        self.letters, self.seconds = model.letters, model.step / RATE
        self.search: BeamSearch | None = None
        if options.get("lm") and not model.letters.words:
            raise ValueError(f"{name}: lm has n-grams of words, which no token of it divides")
        if options.get("beam_width", 1) > 1 or options.get("lm"):
            lm_file = options["lm"]
            lm = read_arpa(lm_file) if lm_file else None
            width = options["beam_width"] if options["beam_width"] > 1 else WIDTH
            self.search = BeamSearch(self.letters, width, lm, options["alpha"], options["beta"])
        self._forget()

    def _forget(self) -> None:
        # Frames of a word that may go on, from which frame of the span on; its start in seconds.
        self.pending: Frames | None = None
        self.pending_start, self.begin = 0, 0.0

    def again(self) -> Self:
        """Begin another recording; captured steps stay."""
        self._forget()
        return super().again()

    def heard(self, samples: Sound, span: tuple[int, int], a: int, b: int) -> Run:
        """The segments of the window of samples a to b, within those of a span; returns a list."""
        first, end = span
        piece = finite(samples[a:b])
        if not piece.any():
            return self.rest()
        step, lead = self.model.step, CONTEXT * RATE
        # Frames lie on one grid over the span, so that each is written by one window.
        start = max(0, a - first - lead) // step * step
        stop = min(end, b + lead)
        wide = piece if (first + start, stop) == (a, b) else finite(samples[first + start : stop])
        with no_grad():
            logits = self.model(tensor(self.model.ready(wide), device=self.model.device))[0]
            log_probs = self._of(ops.log_softmax(logits.float(), -1))
            frames = np.asarray((yield log_probs.readback()))
        low = -(-(a - first) // step)
        high = -(-(b - first) // step) if b < end else start // step + len(frames)
        inner_frames = frames[max(0, low - start // step) : max(0, high - start // step)]
        self.begin = first / RATE
        if self.pending is None:
            self.pending, self.pending_start = inner_frames, low
        else:
            self.pending = np.concatenate([self.pending, inner_frames])
        return self._written(b >= end)

    def rest(self) -> list[dict[str, Any]]:
        """What is left to be said where a span ends."""
        segments = [] if self.pending is None else self._written(True)
        self.pending = None
        return segments

    def _of(self, logs: Tensor) -> Tensor:
        """What is read of log probabilities (frames, vocab): all, or the likeliest and its id."""
        if self.search is not None:
            return logs
        # ids are exact as float32: a vocabulary has far less than 2**24 tokens
        best, ids = logs.max(-1)
        return stack([best, ids.to(best.dtype)], -1)

    def _written(self, ended: bool) -> list[dict[str, Any]]:
        """The segments of the frames that are held; a last word that may go on is kept, if not
        `ended`.
        """
        assert self.pending is not None
        words, frames, pending_start = self._words(self.pending), self.pending, self.pending_start
        self.pending, self.pending_start = (
            (None, 0) if ended else (frames[len(frames) :], pending_start + len(frames))
        )
        if words and (len(frames) - words[-1][-1].stop) * self.seconds > PAUSE:
            ended = True  # the last word
        if not ended and words:
            goes_on = words[-1] if self.letters.words else words[-1][-1:]
            # Where words are not divided, only a token that touches the cut may go on.
            if self.letters.words or goes_on[0].stop == len(frames):
                self.pending, self.pending_start = (
                    frames[goes_on[0].first :],
                    pending_start + goes_on[0].first,
                )
                words = [*words[:-1], words[-1][: len(words[-1]) - len(goes_on)]]
                words = [word for word in words if word]
        return self._grouped(words, self.begin + pending_start * self.seconds)

    def _grouped(self, words: Sequence[list[Letter]], start: float) -> list[dict[str, Any]]:
        """Segments of words whose frames begin at `start` seconds."""
        segments: list[list[list[Letter]]] = []
        for word in words:
            if not segments or (word[0].first - segments[-1][-1][-1].stop) * self.seconds > PAUSE:
                segments.append([])
            segments[-1].append(word)
        return [self._segment(group, start) for group in segments]

    def _words(self, frames: Frames) -> list[list[Letter]]:
        """The letters of each word of frames, as `_of` gave them."""
        if self.search is None:
            ids = frames[:, 1].astype(np.int64).tolist()
            words: list[list[Letter]] = self.letters.read(ids, frames[:, 0].tolist())
            return words
        best = self.search.run(frames.astype(np.float64))[0]
        spans = zip(best.ids, best.frames, strict=True)
        words = self.letters.spelled((n, first, stop, (log,)) for n, (first, stop, log) in spans)
        return words

    def _segment(self, words: Sequence[Sequence[Letter]], start: float) -> dict[str, Any]:
        space = self.letters.space
        timed_words = [
            {"word": space + "".join(x.text for x in word), **self._said(word, start)}
            for word in words
        ]
        return {
            **self._said([letter for word in words for letter in word], start),
            "text": "".join(word["word"] for word in timed_words),
            "no_speech": 0.0,
            "words": timed_words if self.options["words"] else [],
        }

    def _said(self, letters: Sequence[Letter], start: float) -> dict[str, float]:
        """Start, end and probability of letters that follow each other."""
        logs = [float(np.mean(letter.logs)) for letter in letters]
        return {
            "start": start + letters[0].first * self.seconds,
            "end": start + letters[-1].stop * self.seconds,
            "probability": float(np.exp(np.mean(logs))),
        }
