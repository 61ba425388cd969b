"""Transcription by a language model that hears: it is asked for what each window says."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np

from rushlight.models.generation.steps import Token
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.split_windows import Samples, WindowTranscriber
from rushlight.models.tasks.record import Run

# More tokens than this repeat themselves: so many, and so many for each second.
_LEAST, _PER_SECOND = 24, 16


class AskedTranscriber(WindowTranscriber):
    """The likeliest answers of a `HearingDecoder` that is asked for transcripts.

    ValueError for a checkpoint without a tokenizer, and for the times of words.
    """

    taken = ("clips", "vad", "language")

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        name = model.config.model_type
        if options["words"]:
            raise ValueError(
                f"{name}: words have no times, as the model writes text alone; leave words off, or "
                "use a whisper or wav2vec2"
            )
        super().__init__(model, options)
        if model.tokenizer is None:
            raise ValueError(f"{name}: the checkpoint has no tokenizer; add its tokenizer.json")
        self.language = options["language"]

    def window(self, samples: Samples, start: float) -> Run:
        """The segment of one window that begins at `start` seconds; returns a list."""
        model, seconds = self.model, len(samples) / RATE
        prompt = model.transcript_prompt(samples, self.options["language"])
        most = _LEAST + int(_PER_SECOND * seconds)
        tokens, sent = list[Token](), None
        chosen = {"temperature": 0.0, "max_new_tokens": most}
        with closing(model.steps(prompt, **chosen)) as steps:
            while True:
                try:
                    item = steps.send(sent)
                except StopIteration:
                    break
                if isinstance(item, Token):
                    tokens.append(item)
                    sent = None
                else:
                    sent = yield item
        text, language = model.sight.heard("".join(token.text for token in tokens))
        self.language = self.language or language
        if not text:
            return []
        logs = [token.logprob for token in tokens]
        return [
            {
                "start": start,
                "end": start + seconds,
                "text": f" {text}",
                "probability": float(np.exp(np.mean(logs))),
                "no_speech": 0.0,
                "words": [],
            }
        ]
