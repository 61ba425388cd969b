"""The task zero-shot-audio-classification: which of any labels fit a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.audio.inputs import samples_of
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task
from rushlight.models.tasks.zero_shot_image_classification import asked, text_vectors


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"label", "score"} of every label for a recording, the likeliest first.

    Scores are a softmax over the labels. ValueError for missing labels, or a template without {}.
    """
    labels, sentences = asked(options, "zero-shot-audio-classification")
    texts = text_vectors(model, sentences)
    samples = samples_of(audio, model.rate)
    with no_grad():
        logits = model.compare(model.encode_audio(**model.inputs_of([samples])), texts)
        scores = logits.softmax(-1)
    (row,) = np.asarray((yield scores.readback()))
    yield Progress("classify", 1, 1)
    order = np.argsort(-row, kind="stable").tolist()
    return [{"label": labels[j], "score": float(row[j])} for j in order]


TASK = Task(
    name="zero-shot-audio-classification",
    summary="Say which of any labels fit a recording.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("candidate_labels", "texts", (), "The labels, or one text with commas."),
        Option(
            "hypothesis_template",
            "text",
            "This is a sound of {}.",
            "A sentence with {} for the label.",
        ),
    ),
    command=Command("choose-audio", "", result="value"),
)
