"""The task text2text-generation: an encoder-decoder model turns a text into another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rushlight.core.backends import LINEAR_MODES
from rushlight.models.generation.sampling import CACHE_TYPES
from rushlight.models.generation.search.options import chosen
from rushlight.models.generation.steps import Token
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

# Makes of a text its token ids, and options of the search that go with it.
Prepare = Callable[[str], tuple[list[int], dict[str, Any]]]


@dataclass(frozen=True)
class Written:
    """The text, or a list of them where several were asked for; seconds: see `Answer`.

    ids: the tokens of the text, or a list of them. stopped: why the first answer ended.
    """

    text: str | list[str]
    prompt_ids: list[int]
    ids: list[Any]
    stopped: str
    seconds: dict[str, float]


def _search(name: str, kind: str, help: str, least: int | None = None) -> Option:
    return Option(name, kind, None, help, least=least)


# Options of the search, which checks them; None: as the checkpoint says.
SEARCH = (
    _search("max_new_tokens", "int", "The most tokens of an answer.", 1),
    _search("min_new_tokens", "int", "The fewest tokens of an answer.", 0),
    _search("num_beams", "int", "Sequences that are continued together; 1 streams.", 1),
    _search("num_return_sequences", "int", "Answers of each text.", 1),
    _search("length_penalty", "float", "Above 0 beams prefer long answers, below 0 short ones."),
    _search("early_stopping", "bool", "Stop when as many answers as beams are found."),
    _search("no_repeat_ngram_size", "int", "Runs of this many tokens occur once only.", 0),
    _search("repetition_penalty", "float", "Divide the logits of earlier tokens by this."),
    _search("do_sample", "bool", "Draw tokens instead of taking the likeliest."),
    _search("temperature", "float", "Above 1 draws are more even, below 1 less."),
    _search("top_k", "int", "Draw from this many likeliest tokens; 0: from all.", 0),
    _search("top_p", "float", "Draw from the likeliest tokens that sum to this probability."),
    _search("seed", "int", "The same seed draws the same tokens.", 0),
    Option(
        "linear",
        "text",
        "fast",
        "Products with quantized weights: fast or int8 round activations, or exact.",
        LINEAR_MODES,
    ),
    Option("cache_type", "text", "float32", "The dtype of cached keys and values.", CACHE_TYPES),
)
BATCHES = (
    Option("batch_size", "int", 8, "Texts computed at a time.", least=1),
    Option("truncate", "bool", False, "Cut texts that are longer than the context."),
)


def answers(
    model: Any, texts: str | Sequence[str], options: Mapping[str, Any], task: str, prepare: Prepare
) -> Run:
    """Answer texts that `prepare` makes ids of: yields tokens of a single text, or progress."""
    began = time.perf_counter()
    remaining, single = dict(options), isinstance(texts, str)
    size, cut = remaining.pop("batch_size"), remaining.pop("truncate")
    _, defaults = model.languages.defaults(task)
    asked = defaults | {name: value for name, value in remaining.items() if value is not None}
    if remaining.get("max_new_tokens") is not None:
        asked.pop("max_length", None)
    ready = []
    for source in [texts] if isinstance(texts, str) else texts:
        with model.cutting(cut):
            ready.append(prepare(source))
    by_text: list[Any] = [None] * len(ready)
    order = sorted(range(len(ready)), key=lambda i: -len(ready[i][0]))
    first = 0.0
    for start in range(0, len(order), size):
        some = order[start : start + size]
        with closing(model.search([ready[i][0] for i in some], **asked | ready[some[0]][1])) as s:
            sent = None
            while True:
                try:
                    item = s.send(sent)
                except StopIteration as finished:
                    for i, rows in zip(some, finished.value, strict=True):
                        by_text[i] = rows
                    break
                if isinstance(item, Token):
                    first = first or time.perf_counter()
                sent = yield item
        if len(ready) > 1:
            yield Progress("write", min(start + size, len(order)), len(order))
    settled = chosen(model.stored, asked)
    several = settled.num_return_sequences > 1
    each = [[model.text_of(answer) for answer in rows] for rows in by_text]
    token_ids = [[answer.ids for answer in rows] for rows in by_text]
    text: Any = each if several else [written[0] for written in each]
    ids: Any = token_ids if several else [sequences[0] for sequences in token_ids]
    done = bool(token_ids) and bool(token_ids[0][0]) and token_ids[0][0][-1] in settled.ends
    seconds = {
        "prefill": (first or began) - began,
        "decode": time.perf_counter() - (first or began),
    }
    if single and not first:  # beams have no text on the way
        best = by_text[0][0]
        yield Token(
            best.ids[-1] if best.ids else -1,
            each[0][0],
            best.score,
            "eos" if done else "length",
        )
    return Written(
        text[0] if single else text,
        ready[0][0] if ready else [],
        ids[0] if single else ids,
        "eos" if done else "length",
        seconds,
    )


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Answer texts as they are."""
    return (
        yield from answers(
            model, texts, options, TASK.name, lambda text: (model.source_ids(text), {})
        )
    )


TASK = Task(
    name="text2text-generation",
    summary="Turn a text into another, as the model was trained to.",
    input=Input("texts", "texts", "The texts."),
    output="text",
    run=run,
    options=(*SEARCH, *BATCHES),
    streams=True,
    command=Command("rewrite", ""),
)
