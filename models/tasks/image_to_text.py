"""The task image-to-text: what an image shows, or the text in it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.models.generation.search.options import chosen
from rushlight.models.generation.steps import Token
from rushlight.models.image.files import load_all
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task
from rushlight.models.tasks.text2text_generation import SEARCH

SIZE = Option("batch_size", "int", 8, "Images computed at a time.", least=1)


def written(model: Any, pairs: Sequence[tuple[Any, str]], options: Mapping[str, Any]) -> Run:
    """The answers `Found` to each pair of pixels and a text: yields tokens of a single one."""
    asked = {o.name: options[o.name] for o in SEARCH if options[o.name] is not None}
    ready = [model.source_ids(pair) for pair in pairs]
    by_kind: dict[Any, list[int]] = {}
    for i, source in enumerate(ready):
        by_kind.setdefault(source.kind, []).append(i)
    found: list[Any] = [None] * len(ready)
    done, size = 0, options["batch_size"]
    for same in by_kind.values():
        for start in range(0, len(same), size):
            some = same[start : start + size]
            answers = yield from model.search([ready[i] for i in some], **asked)
            for i, rows in zip(some, answers, strict=True):
                found[i] = rows
            done += len(some)
            if len(ready) > 1:
                yield Progress("write", done, len(ready))
    settled = chosen(model.stored, asked)
    if len(ready) == 1 and max(settled.num_beams, settled.num_return_sequences) > 1:
        best = found[0][0]  # whose text did not come on the way
        last = best.ids[-1] if best.ids else -1
        reason = "eos" if last in settled.ends else "length"
        yield Token(last, model.text_of(best), best.score, reason)
    return found


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """[{"generated_text"}] of each image, a list of these for several images.

    An answer to a task of Florence-2 has what it says too, by the token of the task: boxes and
    polygons in pixels of the file.
    """
    pixels, prompt = load_all(images), options["prompt"]
    found = yield from written(model, [(image, prompt) for image in pixels], options)
    rows = []
    for image, answers in zip(pixels, found, strict=True):
        row = [{"generated_text": model.text_of(answer)} for answer in answers]
        if hasattr(model, "answer"):
            for said, answer in zip(row, answers, strict=True):
                said |= model.answer(answer.ids, prompt, image.shape[:2])
        rows.append(row)
    return rows if isinstance(images, list | tuple) else rows[0]


TASK = Task(
    name="image-to-text",
    summary="Say what an image shows, or write down its text.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("prompt", "text", "", "What the text begins with, or what the model is asked."),
        *SEARCH,
        SIZE,
    ),
    streams=True,
)
