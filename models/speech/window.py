"""One window of audio: its tokens at one temperature, and whether they are to be believed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.functional.pieces import stack
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.search.run import Draw
from rushlight.models.speech.rules import Rules
from rushlight.models.tasks.record import Run


@dataclass(frozen=True)
class Decoded:
    """The tokens of a window without the end, and the log probability of each."""

    tokens: list[int]
    logs: list[float]
    no_speech: float  # the probability that nobody speaks
    temperature: float
    text: str

    @property
    def average(self) -> float:
        """The mean log probability of a token, the end's included."""
        return sum(self.logs) / max(1, len(self.logs))

    @property
    def compression(self) -> float:
        """How many times smaller zlib makes the text: what repeats itself is over 2.4."""
        raw = self.text.encode("utf-8", "replace")
        return len(raw) / len(zlib.compress(raw)) if raw else 0.0


class Decoder:
    """Decodes windows with one state, whose captured steps are kept between them."""

    def __init__(self, model: Any) -> None:
        self.model, self.state = model, None

    def run(
        self, states: Tensor, before: Sequence[int], prompt: Sequence[int], rules: Rules,
        temperature: float, draw: Draw, most: int,
    ) -> Run:  # fmt: skip
        """Steps of decoding; returns `Decoded`. Tokens are drawn where temperature is not 0.

        before: the tokens of earlier text; prompt: those that the transcript begins with.
        """
        model, t = self.model, self.model.tokens
        self.state = state = model.start(states, reuse=self.state)
        ids = [*before, *prompt]
        logits = state.step([ids])[0]
        first = np.asarray((yield stack([logits[len(before)], logits[-1]]).readback()))
        quiet = 0.0
        if t.nospeech is not None:
            shifted = np.exp(first[0] - first[0].max())
            quiet = float(shifted[t.nospeech] / shifted.sum())
        row = first[1]
        tokens: list[int] = []
        logs: list[float] = []
        most = min(most, model.context_length - len(ids) - 1)
        while True:
            allowed = rules.allowed(row, tokens)
            if temperature > 0:
                scaled = np.exp((allowed - allowed.max()) / temperature)
                sums = np.cumsum(scaled)
                token = int(np.searchsorted(sums, draw.uniform(1, 1)[0, 0] * sums[-1], "right"))
            else:
                token = int(allowed.argmax())
            logs.append(float(allowed[token]))
            if token == t.endoftext or len(tokens) == most:
                break
            tokens.append(token)
            row = np.asarray((yield state.step([[token]])[0, -1].readback()))
        text = model.tokenizer.decode([n for n in tokens if n < (t.endoftext or 0)])
        return Decoded(tokens, logs, quiet, temperature, text)
