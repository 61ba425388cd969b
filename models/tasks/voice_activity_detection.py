"""The task voice-activity-detection: when there is speech in a recording."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.convert import tensor
from rushlight.models.audio.inputs import samples_of
from rushlight.models.speech.activity import Activity
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

_AT_ONCE = 1875  # chunks: a minute
_SECONDS = ("min_speech", "min_silence", "max_speech", "padding")


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"duration", "segments"} of one recording, and "probabilities" where they are asked for.

    A segment: {"start", "end" (seconds), "probability" (the mean of its chunks)}.
    """
    samples = samples_of(audio, model.rate)
    chunk, rate = model.chunk, model.rate
    state, blocks, step = None, [], _AT_ONCE * chunk
    for first in range(0, len(samples), step):
        block = tensor(samples[first : first + step], device=model.device)
        values, state = model.listen(block.unsqueeze(0), state)
        blocks.append(np.asarray((yield values.readback()))[0])
        done = min(first + step, len(samples))
        yield Progress("listen", done // rate, -(-len(samples) // rate))  # seconds
    probabilities = np.concatenate(blocks)
    bounds = {name: options[name] for name in ("threshold", *_SECONDS)}
    bounds["max_speech"] = options["max_speech"] or math.inf
    segments = []
    for start, end in Activity(**bounds).parts(probabilities.tolist(), rate, chunk, len(samples)):
        heard = probabilities[start // chunk : -(-end // chunk)]
        segments.append(
            {
                "start": round(start / rate, 4),
                "end": round(end / rate, 4),
                "probability": round(float(heard.mean()), 4),
            }
        )
    answer: dict[str, Any] = {"duration": len(samples) / rate, "segments": segments}
    if options["probabilities"]:
        answer["probabilities"] = [round(p, 6) for p in probabilities.tolist()]
    return answer


def _refuse(options: Mapping[str, Any]) -> None:
    if not 0 < options["threshold"] < 1:
        raise ValueError(
            f"voice-activity-detection: threshold is {options['threshold']}; it must be between 0 "
            "and 1"
        )
    for name in _SECONDS:
        value = options[name]
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(
                f"voice-activity-detection: {name} is {value}; it must be a number of seconds"
            )
    least = 2 * options["padding"] + 0.1
    if options["max_speech"] is not None and options["max_speech"] < least:
        raise ValueError(
            f"voice-activity-detection: max_speech is {options['max_speech']}; it must be at "
            f"least {least} with this padding"
        )


TASK = Task(
    name="voice-activity-detection",
    summary="Find when there is speech in a recording.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("threshold", "float", 0.5, "The probability from which a chunk is speech."),
        Option("min_speech", "float", 0.25, "Seconds; shorter speech is dropped."),
        Option("min_silence", "float", 0.1, "Seconds; shorter silence does not end speech."),
        Option("max_speech", "float", None, "Seconds; longer speech is cut at its longest pause."),
        Option("padding", "float", 0.03, "Seconds added to speech at both ends."),
        Option("probabilities", "bool", False, "Give the probability of every 32 ms too."),
    ),
    refuse=_refuse,
    command=Command("vad", "silero-vad"),
)
