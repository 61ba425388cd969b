"""The task text-classification: what kind of text a text is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list

FUNCTIONS = ("softmax", "sigmoid", "none")


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The likeliest `top_k` classes of each text, {"label", "score"}; a list for a single text.

    Scores pass what the checkpoint's problem_type asks for: a sigmoid for several labels at once
    and for a single one, nothing for a regression, else softmax.
    """
    rows = as_list(texts)
    function = options["function_to_apply"]
    if function is None:
        several = model.problem == "multi_label_classification" or len(model.labels) == 1
        function = "sigmoid" if several else "softmax"
        function = "none" if model.problem == "regression" else function
    encoded, done = model.encoded(rows), 0
    rankings: list[Any] = [None] * len(rows)
    for chosen, logits in model.batches(encoded, options["batch_size"]):
        if function != "none":
            logits = logits.sigmoid() if function == "sigmoid" else logits.softmax(-1)
        scores = yield logits.readback()
        for i, row in zip(chosen, scores, strict=True):
            order = np.argsort(-np.asarray(row), kind="stable")[: options["top_k"]].tolist()
            rankings[i] = [{"label": model.labels[j], "score": float(row[j])} for j in order]
        done += len(chosen)
        yield Progress("classify", done, len(rows))
    return rankings[0] if isinstance(texts, str) else rankings


TASK = Task(
    name="text-classification",
    summary="Say which of the checkpoint's classes a text belongs to.",
    input=Input("texts", "texts", "The texts."),
    output="value",
    run=run,
    options=(
        Option(
            "top_k", "int", None, "Classes of each text, the likeliest first; else all.", least=1
        ),
        Option(
            "function_to_apply",
            "text",
            None,
            "What scores pass; else the checkpoint says it.",
            choices=FUNCTIONS,
        ),
        Option("batch_size", "int", 32, "Texts computed at a time.", least=1),
    ),
    command=Command("classify", ""),
)
