"""The task automatic-speech-recognition: the text of recorded speech, with its times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.audio.inputs import samples_of
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.tasks.record import Command, Input, Option, Run, Task


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"text", "language", "duration", "segments"} of one recording.

    A segment: {"start", "end" (seconds), "text", "probability" (the mean of its tokens),
    "no_speech" (of its window), "words"}; a word: {"word", "start", "end", "probability"}. Where a
    model tells no language it is None, and "no_speech" is 0. A family's `transcriber` does the
    work; ValueError for an option that it cannot follow.
    """
    return (yield from model.transcriber(options).run(samples_of(audio, RATE)))


def _follows(model: Any) -> frozenset[str]:
    """The options that a model follows; `followed` of a language model is of its texts."""
    told: frozenset[str] = getattr(model, "transcription_options", None) or model.followed
    return told


TASK = Task(
    name="automatic-speech-recognition",
    summary="Write down the speech of a recording.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("language", "text", None, "The language spoken, such as en; default: detected."),
        Option(
            "task",
            "text",
            "transcribe",
            "Transcribe, or translate to English.",
            choices=("transcribe", "translate"),
        ),
        Option("words", "bool", False, "Find the times of words too."),
        Option("prompt", "text", "", "Text that comes before, for names and style."),
        Option("hotwords", "text", "", "Words to expect in the whole recording."),
        Option("condition", "bool", True, "Tell each window the text before it."),
        Option(
            "vad",
            "text",
            None,
            "A model of voice activity, such as silero-vad: only speech is transcribed.",
        ),
        Option("clips", "spans", None, "Transcribe these parts only: [start, end] in seconds."),
        Option(
            "batch_size",
            "int",
            1,
            "Windows that are decoded together, without earlier text.",
            least=1,
        ),
        Option(
            "suppress_tokens",
            "ids",
            None,
            "Tokens that are never written; default: the checkpoint's.",
        ),
        Option(
            "temperature",
            "float",
            None,
            "Randomness; default: 0, and more only where the text is unlikely.",
        ),
        Option("compression_threshold", "float", 2.4, "Texts that zlib makes smaller repeat."),
        Option("logprob_threshold", "float", -1.0, "Below this mean a text is unlikely."),
        Option("no_speech_threshold", "float", 0.6, "Above it unlikely texts are silence."),
        Option(
            "beam_width",
            "int",
            1,
            "Texts that a search of a CTC head's frames follows; 1: no search.",
            least=1,
        ),
        Option("lm", "text", None, "A file of word n-grams in the ARPA format, for that search."),
        Option("alpha", "float", 0.5, "The weight of the n-grams."),
        Option("beta", "float", 1.5, "What each word adds, with n-grams."),
        Option("seed", "int", 0, "The seed of drawn tokens.", least=0),
    ),
    streams=True,
    follows=_follows,
    command=Command("transcribe", "whisper-tiny.en"),
)
