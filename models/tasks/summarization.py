"""The task summarization: what a long text says, in a few sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.tasks.record import Command, Input, Run, Task
from rushlight.models.tasks.text2text_generation import BATCHES, SEARCH, answers


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Summarize texts, after the prefix that the checkpoint has for it."""
    prefix, _ = model.languages.defaults(TASK.name)
    return (
        yield from answers(
            model, texts, options, TASK.name, lambda text: (model.source_ids(prefix + text), {})
        )
    )


TASK = Task(
    name="summarization",
    summary="Say in a few sentences what a long text says.",
    input=Input("texts", "texts", "The texts."),
    output="text",
    run=run,
    options=(*SEARCH, *BATCHES),
    streams=True,
    command=Command("summarize", ""),
)
