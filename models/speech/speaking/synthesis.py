"""Speech of a text: sentence by sentence, with the times of its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rushlight.core.backends import Generator
from rushlight.core.ops.random import randn
from rushlight.core.tensor.autograd import no_grad
from rushlight.models.layers.speech.voice import Samples, Voice, VoiceText
from rushlight.models.speech.speaking.tokens import Reading
from rushlight.models.tasks.record import Piece, Progress, Run

_MOST_TEXT = 1 << 24  # characters


def speech(model: Voice, text: str, options: Mapping[str, Any]) -> Run:
    """The speech of a text: a run that yields a Piece a sentence, and gives the result.

    A piece and the result are {"audio" (n,) float32, "sampling_rate", "words", "phonemes"}, a
    piece also has "text", "start" and "end" of its sentence. ValueError for a text that is empty,
    too long, or of what the voice does not speak.
    """
    if model.tokens is None:
        raise ValueError(
            f"{model.config.model_type}: the checkpoint has no vocab.json, which makes tokens"
        )
    if len(text) > _MOST_TEXT:
        raise ValueError(
            f"text-to-speech: the text has {len(text)} characters; at most {_MOST_TEXT}"
        )
    reading = Reading(options["lexicon"] or {}, options["phonemizer"])
    generator = Generator(options["seed"])

    def draw(shape: tuple[int, ...]) -> Samples:  # on cpu, so that every device has the same
        return np.asarray(randn(shape, generator=generator).numpy(), np.float32)

    audio: list[Samples] = []
    words: list[dict[str, Any]] = []
    phonemes: list[str] = []
    sentences: Iterator[VoiceText] = model.reader(options).read(text, reading)
    began = 0
    for sentence in sentences:
        with no_grad():
            samples, lengths = yield from model.speak(sentence, options, draw)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        spoken = [
            {
                "word": text[start:end],
                "start": round((began + int(ends[first])) / model.rate, 4),
                "end": round((began + int(ends[last])) / model.rate, 4),
                "from": start,
                "to": end,
            }
            for start, end, first, last in sentence.words
        ]
        piece = {
            "audio": samples,
            "sampling_rate": model.rate,
            "words": spoken,
            "phonemes": sentence.phonemes,
            "start": round(began / model.rate, 4),
            "end": round((began + len(samples)) / model.rate, 4),
        }
        began += len(samples)
        audio.append(samples)
        words += spoken
        phonemes.append(sentence.phonemes)
        yield Piece(piece)
        yield Progress("speak", sentence.words[-1][1], len(text))
    if not audio:
        raise ValueError("text-to-speech: the text has no word to say")
    return {
        "audio": np.concatenate(audio),
        "sampling_rate": model.rate,
        "words": words,
        "phonemes": phonemes,
    }
