"""The task text-to-speech: what a text sounds like."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rushlight.models.speech.speaking.synthesis import speech
from rushlight.models.speech.speaking.tokens import PHONEMIZERS
from rushlight.models.tasks.record import Command, Input, Option, Run, Task

_SLOWEST, _FASTEST = 0.1, 10.0


def run(model: Any, text: str, options: Mapping[str, Any], watched: bool) -> Run:
    """{"audio", "sampling_rate", "words", "phonemes"} of a text.

    audio: (n,) float32 in [-1, 1]. A word: {"word", "start", "end" (seconds), "from", "to" (its
    place in the text)}. phonemes: a text for each sentence. Streamed, each sentence is such a
    value, with "start" and "end" of the sentence in seconds; its times count from the beginning.
    """
    return (yield from speech(_voice(model), text, options))


def _voice(model: Any) -> Any:
    """The model, or what speaks for a language model that writes codes of sound."""
    return getattr(model, "speaking", None) or model


def _refuse(options: Mapping[str, Any]) -> None:
    speed = options["speed"]
    if not _SLOWEST <= speed <= _FASTEST:
        raise ValueError(
            f"text-to-speech: speed is {speed}; it must be {_SLOWEST} to {_FASTEST:g}, 1 as trained"
        )
    for name in ("noise_scale", "noise_scale_duration"):
        value = options[name]
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"text-to-speech: {name} is {value}; it must be 0 or more")
    for word, phonemes in (options["lexicon"] or {}).items():
        if not isinstance(phonemes, str) or not phonemes.strip():
            raise ValueError(
                f"text-to-speech: lexicon gives {word!r} the phonemes {phonemes!r}; they must be a "
                "text of the IPA"
            )


def _follows(model: Any) -> frozenset[str]:
    """The options that a voice follows."""
    model = _voice(model)
    names = {option.name for option in TASK.options}
    lacking = set() if model.speakers > 1 else {"speaker"}
    lacking |= set() if model.speaker_size else {"speaker_embeddings"}
    if not hasattr(model.tokens, "voice"):  # of letters, which have no phonemes
        lacking |= {"lexicon", "phonemizer"}
    return frozenset(names - lacking - set(model.unfollowed))


TASK = Task(
    name="text-to-speech",
    summary="Speak a text.",
    input=Input("text", "text", "The text; phonemes may stand in it between [[ and ]]."),
    output="value",
    run=run,
    options=(
        Option("speed", "float", 1.0, "How fast: 2 is twice as fast."),
        Option(
            "speaker", "int", None, "The number of the speaker, of a voice with several.", least=0
        ),
        Option(
            "speaker_embeddings",
            "vector",
            None,
            "Who speaks, of a voice that takes it: numbers, a file of them, or a name.",
        ),
        Option("lexicon", "variables", None, "Words and their phonemes in the IPA."),
        Option(
            "phonemizer",
            "text",
            "auto",
            "What makes phonemes: espeak where it is installed, or the lexicon of English.",
            choices=PHONEMIZERS,
        ),
        Option("noise_scale", "float", None, "How much the voice varies; default: its own."),
        Option(
            "noise_scale_duration",
            "float",
            None,
            "How much the length of sounds varies; default: the voice's own.",
        ),
        Option("seed", "int", 0, "The seed of what varies.", least=0),
    ),
    streams=True,
    refuse=_refuse,
    follows=_follows,
    command=Command("speak", "piper-joe"),
)
