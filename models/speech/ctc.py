"""Transcription by a CTC head: the likeliest token of each frame, and so the times of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.models.layers.speech.letters import Letter
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.split_windows import Samples, WindowTranscriber
from rushlight.models.tasks.record import Run

PAUSE = 0.7  # seconds between words that end a segment


class CTCTranscriber(WindowTranscriber):
    """Greedy CTC decoding (Graves et al., 2006) of a `WaveModel`.

    A segment ends at a pause of 0.7 s. ValueError for a model without a head or a vocabulary.
    """

    taken = ("words", "clips", "vad")

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

    def window(self, samples: Samples, start: float) -> Run:
        """The segments of one window that begins at `start` seconds; returns a list."""
        with no_grad():
            logits = self.model(tensor(self.model.ready(samples), device=self.model.device))[0]
            # ids are exact as float32: a vocabulary has far less than 2**24 tokens
            best, ids = ops.log_softmax(logits, -1).max(-1)
            both = np.asarray((yield stack([best, ids.to(best.dtype)]).readback()))
        words = self.letters.read(both[1].astype(np.int64).tolist(), both[0].tolist())
        segments: list[list[list[Letter]]] = []
        for word in words:
            if not segments or (word[0].first - segments[-1][-1][-1].stop) * self.seconds > PAUSE:
                segments.append([])
            segments[-1].append(word)
        return [self._segment(group, start) for group in segments]

    def _segment(self, words: Sequence[Sequence[Letter]], start: float) -> dict[str, Any]:
        space = self.letters.space
        told = [
            {"word": space + "".join(x.text for x in word), **self._said(word, start)}
            for word in words
        ]
        return {
            **self._said([letter for word in words for letter in word], start),
            "text": "".join(word["word"] for word in told),
            "no_speech": 0.0,
            "words": told if self.options["words"] else [],
        }

    def _said(self, letters: Sequence[Letter], start: float) -> dict[str, float]:
        """Start, end and probability of letters that follow each other."""
        logs = [float(np.mean(letter.logs)) for letter in letters]
        return {
            "start": start + letters[0].first * self.seconds,
            "end": start + letters[-1].stop * self.seconds,
            "probability": float(np.exp(np.mean(logs))),
        }
