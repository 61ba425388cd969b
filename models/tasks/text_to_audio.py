"""The task text-to-audio: music or sound that a text describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.io.text.tokenizer import pad_batch
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.models.speech.composing import compose
from rushlight.models.tasks.record import Command, Input, Option, Run, Task

_LONGEST = 120  # seconds


def run(model: Any, text: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"audio", "sampling_rate", "channels", "duration"} of a text.

    audio: (n,) float32, or (2, n) of a model for two channels. ValueError for an empty text, or a
    checkpoint without a tokenizer.
    """
    if model.tokenizer is None:
        raise ValueError("text-to-audio: the checkpoint has no tokenizer for the text")
    if not text.strip():
        raise ValueError("text-to-audio: the text is empty; say what it should sound of")
    encoded = model.tokenizer.encode_batch([text])
    ids, mask = pad_batch(encoded, model.tokenizer.pad_id or 0)
    audio = model.audio_encoder
    frames = max(1, round(options["seconds"] * audio.rate / audio.hop))
    source, seen = (tensor(values, device=model.device) for values in (ids, mask))
    codes = yield from compose(model, source, seen, frames, options)
    with no_grad():
        sound = model.sound(tensor(codes, device=model.device)).float()
    samples = np.asarray((yield sound.readback()))[0]
    return {
        "audio": samples[0] if len(samples) == 1 else samples,
        "sampling_rate": model.rate,
        "channels": len(samples),
        "duration": samples.shape[1] / model.rate,
    }


def _refuse(options: Mapping[str, Any]) -> None:
    if not 0 < options["seconds"] <= _LONGEST:
        raise ValueError(
            f"text-to-audio: seconds is {options['seconds']:g}; it must be above 0, and at most "
            f"{_LONGEST}"
        )
    if options["temperature"] <= 0:
        raise ValueError(
            f"text-to-audio: temperature is {options['temperature']:g}; it must be above 0; "
            "do_sample=False takes the likeliest codes"
        )


TASK = Task(
    name="text-to-audio",
    summary="Make music or sound that a text describes.",
    input=Input("text", "text", "What it should sound of."),
    output="value",
    run=run,
    options=(
        Option("seconds", "float", 8.0, "How long it is."),
        Option("guidance_scale", "float", 3.0, "How closely it follows the text; 1: unguided."),
        Option("do_sample", "bool", True, "Draw codes, in place of the likeliest.", off="greedy"),
        Option("temperature", "float", 1.0, "Above 1 for more variety, below for less."),
        Option("top_k", "int", 250, "Codes that are drawn from, the likeliest.", least=1),
        Option("seed", "int", 0, "The seed of the draws.", least=0),
    ),
    refuse=_refuse,
    command=Command("compose", "", result="sound"),
)
