"""The task image-to-text: what an image shows, or the text in it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from rushlight.models.generation.search.beams import Found
from rushlight.models.generation.search.options import chosen
from rushlight.models.generation.steps import Token
from rushlight.models.image.files import load_all
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task
from rushlight.models.tasks.text2text_generation import SEARCH

SIZE = Option("batch_size", "int", 8, "Images computed at a time.", least=1)


def written(model: Any, pairs: Sequence[tuple[Any, str]], options: Mapping[str, Any]) -> Run:
    """The answers `Found` to each pair of pixels and a text: yields tokens of a single one."""
    if hasattr(model, "picture_prompt"):
        return (yield from continued(model, pairs, options))
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
        yield Token(last, text_of(model, best), best.score, reason)
    return found


def text_of(model: Any, found: Found) -> str:
    """The text of an answer, without special tokens; empty without a tokenizer."""
    tokenizer = model.tokenizer
    return "" if tokenizer is None else str(tokenizer.decode(found.ids)).strip()


def continued(model: Any, pairs: Sequence[tuple[Any, str]], options: Mapping[str, Any]) -> Run:
    """`written` by a decoder that reads pictures among its tokens: no beams, one answer each."""
    for name in ("num_beams", "num_return_sequences"):
        if (options[name] or 1) > 1:
            raise ValueError(
                f"{TASK.name}: {name} is {options[name]}; {model.config.model_type} is a decoder, "
                "which writes one answer; leave it out"
            )
    draws = {name: options[name] for name in ("temperature", "top_k", "top_p", "seed")}
    asked = {name: value for name, value in draws.items() if value is not None}
    asked = asked if options["do_sample"] else {"temperature": 0}
    for name in ("max_new_tokens", "repetition_penalty", "cache_type", "linear"):
        if options[name] is not None:
            asked[name] = options[name]
    found = []
    for done, (image, text) in enumerate(pairs):
        ids, logs = list[int](), 0.0
        prompt = model.picture_prompt(text, image)
        with closing(model.steps(prompt, **asked)) as steps:
            sent = None
            while True:
                try:
                    item = steps.send(sent)
                except StopIteration:
                    break
                if isinstance(item, Token):
                    ids, logs = [*ids, item.id], logs + item.logprob
                    if len(pairs) > 1:
                        sent = None
                        continue
                sent = yield item
        found.append([Found(ids, logs)])
        if len(pairs) > 1:
            yield Progress("write", done + 1, len(pairs))
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
        row = [{"generated_text": text_of(model, answer)} for answer in answers]
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
