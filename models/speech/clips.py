"""Parts of a recording to transcribe: those that a caller names, or where there is speech."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from rushlight.models.audio.files import Audio
from rushlight.models.audio.inputs import Samples, Sound
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.loading import load
from rushlight.models.model import Model
from rushlight.models.tasks.record import Run

_FRAMES = 100  # a second


def bounded(clips: Sequence[Any], total: int) -> list[tuple[int, int]]:
    """Clips as frames within the recording: [start, end] or {"start", "end"}, in seconds.

    ValueError for a clip that ends before it begins, or begins before the one before it ends.
    """
    bounds: list[tuple[int, int]] = []
    for clip in clips:
        pair = (clip["start"], clip["end"]) if isinstance(clip, Mapping) else tuple(clip)
        start, end = (float(x) for x in pair)
        last = bounds[-1][1] if bounds else 0
        if not 0 <= start < end or round(start * _FRAMES) < last:
            raise ValueError(
                f"automatic-speech-recognition: clip {start} to {end} does not follow on "
                f"{last / _FRAMES}; clips are in order and end after they begin"
            )
        frames = round(start * _FRAMES), round(min(end * _FRAMES, total))
        if frames[0] < frames[1]:
            bounds.append(frames)
    return bounds


def joined(clips: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Neighbouring clips as one, where both with the pause between them have at most `most`."""
    merged: list[tuple[int, int]] = []
    for start, end in clips:
        if merged and end - merged[-1][0] <= most:
            merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def parts_of(options: Mapping[str, Any], samples: Sound, total: int, most: int) -> Run:
    """The parts of `total` frames to transcribe: clips, where there is speech, or all.

    options: clips and vad of the task automatic-speech-recognition. most: frames of a window.
    """
    if options["clips"] is not None:
        return bounded(options["clips"], total)
    if options["vad"] is None:
        return [(0, total)]
    segments = yield from speech_of(options["vad"], samples, most / _FRAMES)
    return joined(bounded(segments, total), most)


@lru_cache(1)
def _loaded(name: str) -> Model:
    """The model of the recordings before, with its captured steps."""
    return load(name)


def speech_of(name: str, samples: Sound, most: float) -> Run:
    """Where there is speech in samples at 16 kHz, by the model `name`, cut to `most` seconds."""
    if sys.platform == "emscripten":
        raise ValueError(
            "vad is a name of a model that a page loads by itself: run its task "
            "voice-activity-detection and pass the segments as clips"
        )
    from rushlight.models.tasks.registry import check_served

    model = _loaded(name)
    task = check_served(model, "voice-activity-detection")
    told = task.checked({"max_speech": most, "padding": 0.2})
    audio = samples if isinstance(samples, Samples) else Audio(samples, RATE)
    return (yield from task.run(model, audio, told, False))["segments"]
