"""The task pitch-estimation: how high a voice or an instrument sounds, over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.audio.inputs import samples_of
from rushlight.models.layers.sound.crepe import DECODERS, pitches
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

_AT_ONCE = 512  # frames


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"duration", "step", "pitch", "periodicity"} of a recording.

    pitch: in Hz, one every `step` seconds, the first at 0. periodicity: how sure each is, 0 to 1.
    """
    samples = samples_of(audio, model.rate)
    hop = max(1, round(options["step"] * model.rate))
    count, blocks = 1 + len(samples) // hop, []
    for first in range(0, count, _AT_ONCE):
        stop = min(first + _AT_ONCE, count)
        with no_grad():
            values = model(model.frames(samples, hop, first, stop)).float()
        blocks.append(np.asarray((yield values.readback())))
        yield Progress("listen", stop * hop // model.rate, -(-count * hop // model.rate))
    low, high = options["lowest"], options["highest"]
    hz, sure = pitches(np.concatenate(blocks), low, high, options["decoder"])
    return {
        "duration": len(samples) / model.rate,
        "step": hop / model.rate,
        "pitch": [round(value, 3) for value in hz.tolist()],
        "periodicity": [round(value, 6) for value in sure.tolist()],
    }


def _refuse(options: Mapping[str, Any]) -> None:
    low, high = options["lowest"], options["highest"]
    if not 10 <= low < high:
        raise ValueError(
            f"pitch-estimation: lowest is {low:g} and highest {high:g}; they must be Hz, 10 or more"
        )
    if not 0.001 <= options["step"] <= 1:
        raise ValueError(
            f"pitch-estimation: step is {options['step']:g}; it must be 0.001 to 1 seconds"
        )


TASK = Task(
    name="pitch-estimation",
    summary="Say how high a voice or an instrument sounds, over time.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("step", "float", 0.01, "Seconds from one pitch to the next."),
        Option("lowest", "float", 50.0, "Hz; no pitch is lower."),
        Option("highest", "float", 2006.0, "Hz; no pitch is higher."),
        Option(
            "decoder", "text", "viterbi", "How pitches are read of probabilities.", choices=DECODERS
        ),
    ),
    refuse=_refuse,
    command=Command("pitch", "crepe-tiny", result="value"),
)
