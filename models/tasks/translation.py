"""The task translation: a text in another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.tasks.record import Command, Input, Option, Run, Task
from rushlight.models.tasks.text2text_generation import BATCHES, SEARCH, answers


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Translate texts, all from one language to one other."""
    remaining = dict(options)
    source, target = remaining.pop("source"), remaining.pop("target")
    codes = model.languages
    name = f"translation_{source}_to_{target}" if target else TASK.name
    return (
        yield from answers(
            model,
            texts,
            remaining,
            name,
            lambda text: codes.prepare(model, text, source, target),
        )
    )


TASK = Task(
    name="translation",
    summary="Translate a text into another language.",
    input=Input("texts", "texts", "The texts."),
    output="text",
    run=run,
    options=(
        Option("source", "text", None, "The language of the texts, as the checkpoint names it."),
        Option("target", "text", None, "The language to translate into."),
        *SEARCH,
        *BATCHES,
    ),
    streams=True,
    command=Command("translate", ""),
)
