"""The task audio-classification: what a recording sounds of, of the checkpoint's classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.audio.inputs import samples_of
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

FUNCTIONS = ("softmax", "sigmoid", "none")


def run(model: Any, audio: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The likeliest `top_k` classes of a recording, {"label", "score"}.

    Scores pass what the checkpoint's problem_type asks for: a sigmoid for several labels at once,
    nothing for a regression, else softmax. ValueError for a checkpoint without classes.
    """
    if not model.labels:
        raise ValueError("audio-classification: the checkpoint has no head with classes")
    samples = samples_of(audio, model.rate)
    function = options["function_to_apply"]
    if function is None:
        kinds = {"multi_label_classification": "sigmoid", "regression": "none"}
        function = kinds.get(model.problem, "softmax")
    with no_grad():
        logits = model(**model.inputs_of([samples])).float()
        if function != "none":
            logits = logits.sigmoid() if function == "sigmoid" else logits.softmax(-1)
    (scores,) = np.asarray((yield logits.readback()))
    yield Progress("classify", 1, 1)
    order = np.argsort(-scores, kind="stable")[: options["top_k"]].tolist()
    return [{"label": model.labels[j], "score": float(scores[j])} for j in order]


TASK = Task(
    name="audio-classification",
    summary="Say which of the checkpoint's classes a recording sounds of.",
    input=Input("audio", "audio", "The recording: a file, or its samples."),
    output="value",
    run=run,
    options=(
        Option("top_k", "int", 5, "Classes, the likeliest first.", least=1),
        Option(
            "function_to_apply",
            "text",
            None,
            "What scores pass; else the checkpoint says it.",
            choices=FUNCTIONS,
        ),
    ),
    command=Command("classify-audio", "", result="value"),
)
