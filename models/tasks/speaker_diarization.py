"""The task speaker-diarization: who speaks when in a recording."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rushlight.models.audio.inputs import samples_of
from rushlight.models.tasks.record import Command, Input, Option, Run, Task


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"duration", "speakers", "segments"} of one recording.

    A segment: {"start", "end" (seconds), "speaker" ("SPEAKER_00" is the first who speaks)}; those
    of several speakers may overlap.
    """
    from rushlight.models.speech.diarize import diarized

    return (yield from diarized(model, samples_of(audio, model.rate), options))


def _refuse(options: Mapping[str, Any]) -> None:
    for name, most in (("threshold", 2.0), ("min_speech", 1e6), ("min_silence", 1e6)):
        if not 0 <= options[name] <= most:
            raise ValueError(
                f"speaker-diarization: {name} is {options[name]}; it must be 0 to {most:g}"
            )
    if not 0.1 <= options["step"] <= 10 or math.isnan(options["step"]):
        raise ValueError(
            f"speaker-diarization: step is {options['step']}; it must be 0.1 to 10 seconds"
        )


TASK = Task(
    name="speaker-diarization",
    summary="Say who speaks when in a recording.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("speakers", "int", None, "How many speak; default: told by the threshold.", least=1),
        Option("voices", "text", "resemblyzer", "A model that tells voices apart."),
        Option("threshold", "float", 0.3, "The distance of voices (1 - cosine) that are the same."),
        Option("step", "float", 2.5, "Seconds from one piece of 10 s to the next."),
        Option("min_speech", "float", 0.1, "Seconds; shorter speech is dropped."),
        Option("min_silence", "float", 0.2, "Seconds; shorter pauses of a speaker are filled."),
    ),
    refuse=_refuse,
    command=Command("diarize", ""),
)
