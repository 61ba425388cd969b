"""The task audio-to-audio: a recording as a codec has it, at a bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.convert import tensor
from rushlight.models.audio.channels import channels_of
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

SECONDS: float = 8  # that are coded at a time


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"audio", "sampling_rate", "channels", "duration", "bandwidth", "codebooks"}.

    audio: what is left of the recording once it was coded, (n,) float32 in [-1, 1], or (channels,
    n) of a codec for several. bandwidth: thousands of bits a second.
    """
    count = chosen(model, options["bandwidth"], options["codebooks"])
    channels = channels_of(audio, model.rate, model.channels)
    coding, n, rate = model.round_trip(count), len(channels[0]), model.rate
    parts, step = [], int(SECONDS * rate)
    for start in range(0, n, step):
        block = np.stack([np.asarray(samples[start : start + step]) for samples in channels])
        last = start + step >= n
        out = coding.push(tensor(block[None], device=model.device).to(model.dtype), last)
        if out.shape[-1]:
            parts.append(np.asarray((yield out.float().readback()))[0])
        yield Progress("code", min(start + step, n) // rate, -(-n // rate))  # seconds
    sound = np.concatenate(parts, 1)[:, :n]
    sound = np.pad(sound, ((0, 0), (0, n - sound.shape[1])))  # frames may end before the recording
    return {
        "audio": sound[0] if len(sound) == 1 else sound,
        "sampling_rate": rate,
        "channels": len(sound),
        "duration": n / rate,
        "bandwidth": round(model.bandwidth(count), 4),
        "codebooks": count,
    }


def chosen(model: Any, bandwidth: float | None, codebooks: int | None) -> int:
    """The number of codebooks that options ask of a codec; ValueError where it has not so many."""
    if bandwidth is None:
        return int(model.checked_count(model.codebooks if codebooks is None else codebooks))
    counts = model.bandwidths()
    if codebooks is not None or bandwidth not in counts:
        known = ", ".join(f"{width:g}" for width in counts)
        raise ValueError(
            f"audio-to-audio: bandwidth is {bandwidth:g}; it must be one of {known}, and codebooks "
            "not set beside it"
        )
    return int(counts[bandwidth])


TASK = Task(
    name="audio-to-audio",
    summary="Code a recording and decode it again, at a bandwidth.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("bandwidth", "float", None, "Thousands of bits a second; default: the most."),
        Option("codebooks", "int", None, "Codes of a frame, in place of the bandwidth.", least=1),
    ),
    command=Command("codec", "", result="sound"),
)
