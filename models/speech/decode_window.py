"""One window of audio: its tokens at one temperature, and whether they are to be believed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.functional.joining import stack
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


class _Row:
    """The tokens of one window while it is decoded."""

    def __init__(self, rules: Rules, temperature: float, draw: Draw, most: int) -> None:
        self.rules, self.temperature, self.draw, self.most = rules, temperature, draw, most
        self.tokens: list[int] = []
        self.logs: list[float] = []
        self.no_speech, self.ended = 0.0, False

    def take(self, logits: Any, end: int | None) -> int | None:
        """The next token by logits (vocab,); the end once the text has ended."""
        if self.ended:
            return end
        allowed = self.rules.allowed(logits, self.tokens)
        if self.temperature > 0:
            scaled = np.exp((allowed - allowed.max()) / self.temperature)
            sums = np.cumsum(scaled)
            drawn = self.draw.uniform(1, 1)[0, 0] * sums[-1]
            token = int(np.searchsorted(sums, drawn, "right"))
        else:
            token = int(allowed.argmax())
        self.logs.append(float(allowed[token]))
        self.ended = token == end or len(self.tokens) == self.most
        if self.ended:
            return end
        self.tokens.append(token)
        return token


class Decoder:
    """Decodes windows with one state, whose captured steps are kept between them."""

    def __init__(self, model: Any) -> None:
        self.model, self.state = model, None

    def run(
        self,
        states: Tensor,
        before: Sequence[int],
        prompt: Sequence[int],
        rules: Rules,
        temperature: float,
        draw: Draw,
        most: int,
    ) -> Run:
        """Steps of decoding windows (n, frames, width) together; returns a list of `Decoded`.

        Tokens are drawn where temperature is not 0. before: the tokens of earlier text; prompt:
        those that the transcript begins with.
        """
        model, t = self.model, self.model.tokens
        self.state = state = model.start(states, reuse=self.state)
        ids, count = [*before, *prompt], states.shape[0]
        logits = state.step([ids] * count)
        first = np.asarray(
            (yield stack([logits[:, len(before)], logits[:, -1]]).readback()), np.float64
        )
        most = min(most, model.context_length - len(ids) - 1)
        rows = [_Row(rules, temperature, draw, most) for _ in range(count)]
        if t.nospeech is not None:
            for row, values in zip(rows, first[0], strict=True):
                shifted = np.exp(values - values.max())
                row.no_speech = float(shifted[t.nospeech] / shifted.sum())
        now = first[1]
        while True:
            taken = [row.take(values, t.endoftext) for row, values in zip(rows, now, strict=True)]
            if all(row.ended for row in rows):
                break
            now = np.asarray((yield state.step([[token] for token in taken])[:, -1].readback()))
        return [
            Decoded(
                row.tokens,
                row.logs,
                row.no_speech,
                temperature,
                model.tokenizer.decode([n for n in row.tokens if n < (t.endoftext or 0)]),
            )
            for row in rows
        ]
