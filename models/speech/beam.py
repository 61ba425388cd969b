"""Beam search over a CTC head's frames (Graves and Jaitly, 2014), with a model of n-grams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rushlight.models.layers.speech.letters import MARK, Letters
from rushlight.models.speech.ngrams import END, NGrams, State

# log probabilities of a frame's tokens below this are not tried, as pyctcdecode's token_min_logp;
# nor are texts that are so much less likely than the best.
LEAST_TOKEN, LEAST_BEAM = -5.0, -10.0
UNKNOWN = -10.0 * math.log(10)  # added for a word that the model knows not, as pyctcdecode's
WIDTH = 100  # texts that go on, where n-grams are named and no width, as pyctcdecode's
_NOTHING = -math.inf

Logs = npt.NDArray[np.float64]


def _sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    if a == _NOTHING or b == _NOTHING:
        return max(a, b)
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@dataclass
class Beam:
    """A text: token ids without blanks and repeats. frames: the best path's first and last + 1 of
    each token, with the log probability there.

    blank, token: of the paths that end with a blank, or with the last token. word: its last word so
    far; state, told: of the n-grams after the words before it, and their sum.
    """

    ids: tuple[int, ...]
    frames: tuple[tuple[int, int, float], ...] = ()
    blank: float = _NOTHING
    token: float = _NOTHING
    word: str = ""
    state: State = ()
    told: float = 0.0

    @property
    def heard(self) -> float:
        """The log probability of all its paths."""
        return _sum(self.blank, self.token)

    @property
    def score(self) -> float:
        """What beams are ranked by."""
        return self.heard + self.told


class BeamSearch:
    """The texts that a CTC head's frames are likeliest to mean.

    letters: the vocabulary. width: how many texts go on at once. lm: n-grams of words; alpha: their
    weight; beta: what each word adds (the names of pyctcdecode). exact: no token and no text is
    left out for being unlikely, but for the width.
    """

    def __init__(
        self,
        letters: Letters,
        width: int = 100,
        lm: NGrams | None = None,
        alpha: float = 0.5,
        beta: float = 1.5,
        exact: bool = False,
    ) -> None:
        """The arguments are those of the class; ValueError for a width below 1."""
        if width < 1:
            raise ValueError(f"beam_width is {width}; it must be 1 or more")
        self.letters, self.width, self.lm = letters, width, lm
        self.alpha, self.beta, self.exact = alpha, beta, exact

    def run(self, logs: Logs) -> list[Beam]:
        """The likeliest texts first, of log probabilities (frames, vocab)."""
        beams = [Beam((), blank=0.0, state=() if self.lm is None else self.lm.start)]
        for frame, row in enumerate(logs):
            beams = self._kept(self._extended(beams, frame, row))
        return sorted((self._ended(beam) for beam in beams), key=lambda b: -b.score)

    def _extended(self, beams: Sequence[Beam], frame: int, row: Logs) -> list[Beam]:
        blank = self.letters.blank
        tried = range(len(row)) if self.exact else np.flatnonzero(row >= LEAST_TOKEN).tolist()
        tokens = [int(n) for n in tried] or [int(row.argmax())]
        after: dict[tuple[int, ...], Beam] = {}
        for beam in beams:
            last = beam.ids[-1] if beam.ids else -1
            for token in tokens:
                log = float(row[token])
                if token == blank or token == last:
                    stays = after.get(beam.ids)
                    if stays is None:
                        stays = after[beam.ids] = self._copy(beam)
                    if token == blank:
                        stays.blank = _sum(stays.blank, beam.heard + log)
                    else:
                        stays.token = _sum(stays.token, beam.token + log)
                        if beam.token > beam.blank:
                            first, _, sure = stays.frames[-1]
                            end = first, frame + 1, max(sure, log)
                            stays.frames = (*stays.frames[:-1], end)
                if token == blank:
                    continue
                path = beam.blank if token == last else beam.heard
                if path == _NOTHING:
                    continue
                ids = (*beam.ids, token)
                grown = after.get(ids)
                if grown is None:
                    grown = after[ids] = self._grown(beam, token)
                    grown.frames = (*beam.frames, (frame, frame + 1, log))
                elif not grown.frames or path + log > grown.token:
                    grown.frames = (*beam.frames, (frame, frame + 1, log))
                grown.token = _sum(grown.token, path + log)
        return list(after.values())

    def _kept(self, beams: list[Beam]) -> list[Beam]:
        beams.sort(key=lambda beam: -beam.score)
        least = _NOTHING if self.exact else beams[0].score + LEAST_BEAM
        return [beam for beam in beams[: self.width] if beam.score >= least]

    def _copy(self, beam: Beam) -> Beam:
        return Beam(beam.ids, beam.frames, word=beam.word, state=beam.state, told=beam.told)

    def _grown(self, beam: Beam, token: int) -> Beam:
        """The beam with another token; a word that ends is told to the n-grams."""
        text = self.letters.texts[token]
        text = text.lower() if self.letters.lower else text
        grown = Beam((*beam.ids, token), word=beam.word, state=beam.state, told=beam.told)
        if text.isspace() or text.startswith(MARK):
            self._tell(grown)
            text = text.removeprefix(MARK).strip()
        grown.word += text
        return grown

    def _tell(self, beam: Beam) -> None:
        """Add what the word that ends is worth."""
        word, beam.word = beam.word, ""
        if not word or self.lm is None:
            return
        log, beam.state = self.lm.score(beam.state, word)
        log += 0.0 if word in self.lm else UNKNOWN
        beam.told += self.alpha * log + self.beta

    def _ended(self, beam: Beam) -> Beam:
        """The beam at the end of its sentence."""
        self._tell(beam)
        if self.lm is not None:
            beam.told += self.alpha * self.lm.score(beam.state, END)[0]
        return beam
