"""The task visual-question-answering: an answer to a question about an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.models.image.files import load_all
from rushlight.models.tasks.image_to_text import SIZE, text_of, written
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task
from rushlight.models.tasks.text2text_generation import SEARCH

QUESTION = Option("question", "text", None, "The question.")


def asked(options: Mapping[str, Any], task: str) -> str:
    """The question of a call; ValueError where there is none."""
    question: str = options["question"] or ""
    if not question.strip():
        raise ValueError(f"{task}: question is missing; ask one")
    return question


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """[{"answer"}] of each image, a list of these for several images.

    A model that chooses among answers gives the likeliest `top_k` with a "score" each.
    """
    question, pixels = asked(options, TASK.name), load_all(images)
    rows: list[list[dict[str, Any]]] = []
    if not hasattr(model, "choose"):
        search = {**options, "top_k": None}  # here it is of answers
        found = yield from written(model, [(image, question) for image in pixels], search)
        rows = [[{"answer": text_of(model, answer)} for answer in answers] for answers in found]
        return rows if isinstance(images, list | tuple) else rows[0]
    for image in pixels:  # of sizes of their own
        scores = np.asarray((yield model.choose(image, question).readback()))[0]
        order = np.argsort(-scores, kind="stable")[: options["top_k"]].tolist()
        rows.append([{"score": float(scores[i]), "answer": model.labels[i]} for i in order])
        yield Progress("answer", len(rows), len(pixels))
    return rows if isinstance(images, list | tuple) else rows[0]


TASK = Task(
    name="visual-question-answering",
    summary="Answer a question about an image.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        QUESTION,
        Option("top_k", "int", 5, "Answers of a model that chooses, the likeliest first.", least=1),
        *(option for option in SEARCH if option.name != "top_k"),
        SIZE,
    ),
    streams=True,
)
