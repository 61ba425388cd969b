"""The task sentence-similarity: how alike a text and others are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.functional.network.activations import cosine_similarity
from rushlight.models.tasks.feature_extraction import run as encode
from rushlight.models.tasks.record import Command, Input, Option, Run, Task

_TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. "


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The cosine of the angle between the first text's vector and each of the others, a list.

    ValueError for fewer than two texts. A vector of zeros gives 0.
    """
    rows = [texts] if isinstance(texts, str) else list(texts)
    if len(rows) < 2:
        raise ValueError(
            f"sentence-similarity: texts has {len(rows)}; it must have two at least, of which the "
            "first is compared with the others"
        )
    vectors = (yield from encode(model, rows, options, watched)).float()
    found = yield cosine_similarity(vectors[1:], vectors[:1], -1).readback()
    return [float(value) for value in found]


TASK = Task(
    name="sentence-similarity",
    summary="Say how alike the first text and each of the others are, from -1 to 1.",
    input=Input("texts", "texts", "A text, and those that it is compared with."),
    output="value",
    run=run,
    options=(Option("batch_size", "int", 32, "Texts computed at a time.", least=1),),
    builds_on=("feature-extraction",),
    command=Command("compare", "all-minilm-l6-v2"),
    samples=(([_TEXT, _TEXT * 5] * 8, {"batch_size": 8}),),
)
