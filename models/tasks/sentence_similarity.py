"""The task sentence-similarity: how alike a text and others are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.tasks.feature_extraction import OPTIONS
from rushlight.models.tasks.feature_extraction import run as encode
from rushlight.models.tasks.record import Command, Input, Run, Task

_TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. "


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """How alike the first text's vector and each of the others are, a list: the cosine of their
    angle, or what the model's similarity_fn_name says.

    ValueError for fewer than two texts. The cosine with a vector of zeros is 0.
    """
    rows = [texts] if isinstance(texts, str) else list(texts)
    if len(rows) < 2:
        raise ValueError(
            f"sentence-similarity: texts has {len(rows)}; it must have two at least, of which the "
            "first is compared with the others"
        )
    vectors = (yield from encode(model, rows, options, watched)).float()
    cosines = yield model.similarity(vectors[:1], vectors[1:])[0].readback()
    return [float(value) for value in cosines]


TASK = Task(
    name="sentence-similarity",
    summary="Say how alike the first text and each of the others are, from -1 to 1.",
    input=Input("texts", "texts", "A text, and those that it is compared with."),
    output="value",
    run=run,
    options=OPTIONS,
    builds_on=("feature-extraction", "text-generation"),
    command=Command("compare", "all-minilm-l6-v2"),
    samples=(([_TEXT, _TEXT * 5] * 8, {"batch_size": 8}),),
)
