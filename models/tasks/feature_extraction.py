"""The task feature-extraction: texts to vectors, by an encoder or a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

_TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. "


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Encode batch by batch; returns the vectors, (n, hidden), or (hidden,) of a single text."""
    steps = model.encode_iter([texts] if isinstance(texts, str) else texts, **options)
    try:
        while True:
            yield Progress("encode", *next(steps))
    except StopIteration as finished:
        vectors = finished.value
    return vectors[0] if isinstance(texts, str) else vectors


OPTIONS = (
    Option("batch_size", "int", 32, "Texts computed at a time.", least=1),
    Option(
        "dim", "int", None, "Features that are kept, where a model's first ones suffice.", least=1
    ),
    Option("prompt_name", "text", None, "The name of a prompt of the model, put before each text."),
    Option("prompt", "text", None, "A text that is put before each text."),
    Option("adapter", "text", None, "The adapter of a model that has several."),
)

TASK = Task(
    name="feature-extraction",
    summary="Turn texts into vectors whose dot products say how alike the texts are.",
    input=Input("texts", "texts", "The texts."),
    output="vectors",
    run=run,
    options=OPTIONS,
    builds_on=("text-generation",),
    command=Command("embed", "all-minilm-l6-v2"),
    samples=(([_TEXT, _TEXT * 5] * 8, {"batch_size": 8}),),
)
