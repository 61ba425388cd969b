"""Voice: the base class of models that speak, and the tokens of a text."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.models.model import Model

Samples = npt.NDArray[np.float32]
# Of a piece of speech: more than any sentence has, so a larger number means wrong weights.
MOST_FRAMES = 30_000


@dataclass(frozen=True)
class VoiceText:
    """A sentence as a voice takes it.

    ids: its tokens. words: the places in the sentence that each word begins and ends at, with the
    first token of it and the one after the last. phonemes: what the tokens are made of, as a text.
    """

    ids: tuple[int, ...]
    words: tuple[tuple[int, int, int, int], ...]
    phonemes: str


class Voice(Model):
    """A model that speaks.

    rate: samples a second. speakers: how many it has. speaker_size: numbers of a speaker's vector,
    of a voice that takes one. tokens: what makes tokens of texts, see
    `models/speech/speaking/tokens.py`. unfollowed: options of text-to-speech that mean nothing to
    it.
    """

    rate: int
    speakers: int = 1
    speaker_size: int = 0
    unfollowed: tuple[str, ...] = ()
    tokens: Any = None

    def reader(self, options: Mapping[str, Any]) -> Any:
        """What makes tokens of texts for the speaker that the options ask for."""
        return self.tokens

    def speak(
        self,
        text: VoiceText,
        options: Mapping[str, Any],
        draw: Callable[[tuple[int, ...]], Samples],
    ) -> Generator[Any, Any, tuple[Samples, npt.NDArray[np.int64]]]:
        """The samples of a sentence, and how many of them each token has.

        `text` is the sentence. options: those of the task text-to-speech. draw: normal numbers of a
        shape. Yields readbacks and is sent their values. ValueError for an option out of range,
        FormatError where the weights give no speech.
        """
        raise NotImplementedError
