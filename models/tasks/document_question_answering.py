"""The task document-question-answering: an answer to a question about a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rushlight.models.image.files import load_all
from rushlight.models.tasks.image_to_text import SIZE, written
from rushlight.models.tasks.record import Input, Run, Task
from rushlight.models.tasks.text2text_generation import SEARCH
from rushlight.models.tasks.visual_question_answering import QUESTION, asked


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """[{"answer"}] of each page, a list of these for several; None where none is written.

    Donut is asked with its own tokens. ValueError for a model that has none.
    """
    question, pixels = asked(options, TASK.name), load_all(images)
    tokenizer = model.tokenizer
    if tokenizer is None or tokenizer.token_to_id("<s_docvqa>") is None:
        raise ValueError(
            f"{TASK.name}: the checkpoint's tokenizer has no <s_docvqa>, so it answers no "
            "questions; use a Donut that was trained to"
        )
    prompt = f"<s_docvqa><s_question>{question}</s_question><s_answer>"
    found = yield from written(model, [(image, prompt) for image in pixels], options)
    rows = []
    for answers in found:
        texts = [tokenizer.decode(a.ids, skip_special_tokens=False) for a in answers]
        ends = [re.search(r"(.*)</s_answer>", text, re.DOTALL) for text in texts]
        rows.append([{"answer": end.group(1).strip() if end else None} for end in ends])
    return rows if isinstance(images, list | tuple) else rows[0]


TASK = Task(
    name="document-question-answering",
    summary="Answer a question about a page.",
    input=Input("images", "images", "The pages."),
    output="value",
    run=run,
    options=(QUESTION, *SEARCH, SIZE),
    streams=True,
)
