"""Transcription by a decoder of text without timestamps: a segment for each window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.speech.split_windows import Samples, WindowTranscriber
from rushlight.models.tasks.record import Run

# More tokens a second than this repeat themselves (Jeffries et al., 2024).
TOKENS = 6.5


class GreedyTranscriber(WindowTranscriber):
    """The likeliest token after each other of a `MoonshineModel`, up to 6.5 for each second.

    ValueError for a checkpoint without a tokenizer, and for the times of words.
    """

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
        self.state: Any = None

    def beginning(self) -> list[int]:
        """The tokens that a text begins with."""
        return [self.model.first]

    def window(self, samples: Samples, start: float) -> Run:
        """The segment of one window that begins at `start` seconds; returns a list."""
        model, seconds = self.model, len(samples) / RATE
        with no_grad():
            states = model.encode(tensor(model.ready(samples), device=model.device))
        self.state = state = model.start(states, reuse=self.state)
        tokens, logs, now = list[int](), list[float](), self.beginning()
        most = min(model.context_length + 1 - len(now), math.ceil(TOKENS * seconds))
        for _ in range(most):
            best, token = np.asarray((yield _likeliest(state.step([now])).readback())).tolist()
            logs.append(best)
            now = [int(token)]
            if now[0] in model.ends:
                break
            tokens.append(now[0])
        text = model.tokenizer.decode(tokens).strip()
        if not text:
            return []
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


class PromptedTranscriber(GreedyTranscriber):
    """The same of a `CanaryModel`, which is told the language that is spoken and that written.

    ValueError for a language that the model has no token for.
    """

    taken = ("clips", "vad", "language", "task")

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        super().__init__(model, options)
        self.language = options["language"] or "en"
        self.beginning()

    def beginning(self) -> list[int]:
        """The tokens that a text begins with."""
        written = "en" if self.options["task"] == "translate" else self.language
        ids: list[int] = self.model.prompt_ids(self.language, written)
        return ids


def _likeliest(logits: Tensor) -> Tensor:
    """Logits (1, n, vocab) -> (2,): the log probability of the likeliest token, and its id.

    float32 holds the id: a vocabulary has far less than 2**24 tokens.
    """
    with no_grad():
        best, ids = ops.log_softmax(logits[0, -1], -1).max(-1)
        return stack([best, ids.to(best.dtype)])
