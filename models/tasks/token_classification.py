"""The task token-classification: the classes of a text's tokens, and names found with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rushlight.core.io.text.pairs import windows
from rushlight.core.io.text.tokenizer import Encoding
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list

STRATEGIES = ("none", "simple", "first", "average", "max")
Row = dict[str, Any]


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The tokens of each text with their classes, or groups of them; a list for a single text.

    Without aggregation {"entity", "score", "index", "word", "start", "end"}, else {"entity_group",
    "score", "word", "start", "end"}. start and end are places in the text. The groups are those of
    transformers' pipeline: of neighbouring tokens with one class ("simple"), or of words, whose
    class is that of the first token, of the mean or of the largest score. Texts are cut at the
    checkpoint's limit unless `stride` is given; then groups of overlapping windows are merged.
    """
    rows, stride, strategy = as_list(texts), options["stride"], options["aggregation_strategy"]
    if stride is not None and strategy == "none":
        raise ValueError(
            "token-classification: a stride needs an aggregation_strategy; supported: "
            f"{', '.join(STRATEGIES[1:])}"
        )
    encoded = model.encoded(rows, cut=stride is None)
    waiting: dict[int, tuple[int, Encoding]] = {}
    by_text: list[list[Row]] = [[] for _ in rows]
    parts, done = [0] * len(rows), 0

    def pieces() -> Iterator[Encoding]:
        for i, row in enumerate(encoded):
            for window in [row] if stride is None else windows(row, model.max_length, stride):
                waiting[len(waiting) + done] = i, window
                parts[i] += 1
                yield window

    ignored = as_list(options["ignore_labels"])
    for chosen, logits in model.batches(pieces(), options["batch_size"]):
        scores = np.asarray((yield logits.softmax(-1).readback()))
        for number, row in zip(chosen, scores, strict=True):
            i, encoding = waiting.pop(number)
            done += 1
            tokens = list(_tokens(model, rows[i], encoding, row))
            by_text[i] += [
                group
                for group in _grouped(model, tokens, strategy)
                if group.get("entity", group.get("entity_group")) not in ignored
            ]
        yield Progress("classify", done, max(done + len(waiting), len(rows)))
    answers = [
        _merged(groups) if n > 1 else groups for groups, n in zip(by_text, parts, strict=True)
    ]
    return answers[0] if isinstance(texts, str) else answers


def _tokens(model: Any, text: str, encoding: Encoding, scores: Any) -> Iterator[Row]:
    """The tokens of a row, with their scores, and whether they continue a word."""
    tokenizer = model.tokenizer
    for i, (id, (start, end)) in enumerate(zip(encoding.ids, encoding.offsets, strict=True)):
        if encoding.special[i]:
            continue
        word, written = tokenizer.id_to_token(id) or "", text[start:end]
        if id == tokenizer.unk_id:
            word, within = written, False
        elif tokenizer.prefix:
            within = len(word) != len(written)
        else:
            within = start > 0 and " " not in text[start - 1 : start + 1]
        yield {
            "index": i,
            "word": word,
            "start": start,
            "end": end,
            "scores": scores[i],
            "within": within,
        }


def _grouped(model: Any, tokens: list[Row], strategy: str) -> list[Row]:
    """The tokens with their classes, or the groups of a strategy."""
    if strategy in ("none", "simple"):
        rows = [_classed(model, token, token["scores"]) for token in tokens]
        if strategy == "none":
            return rows
    else:
        rows = []
        for word in _runs(tokens, lambda last, one: one["within"]):
            if strategy == "average":
                scores = np.mean([token["scores"] for token in word], 0)
            else:
                best = max(word, key=lambda one: one["scores"].max()) if strategy == "max" else None
                scores = (best or word[0])["scores"]
            text = model.tokenizer.join([token["word"] for token in word])
            rows.append(_classed(model, word[0] | {"word": text, "end": word[-1]["end"]}, scores))
    return [
        {
            "entity_group": group[0]["entity"].split("-", 1)[-1],
            "score": float(np.mean([token["score"] for token in group])),
            "word": model.tokenizer.join([token["word"] for token in group]),
            "start": group[0]["start"],
            "end": group[-1]["end"],
        }
        for group in _runs(rows, _continues)
    ]


def _classed(model: Any, token: Row, scores: Any) -> Row:
    best = int(scores.argmax())
    return {
        "entity": model.labels[best],
        "score": float(scores[best]),
        "index": token["index"],
        "word": token["word"],
        "start": token["start"],
        "end": token["end"],
    }


def _continues(last: Row, one: Row) -> bool:
    """Whether a token is of the group before it: of the same name, and begins none."""
    names = [row["entity"] for row in (last, one)]
    bare = [name[2:] if name.startswith(("B-", "I-")) else name for name in names]
    return bare[0] == bare[1] and not names[1].startswith("B-")


def _runs(rows: list[Row], joins: Any) -> Iterator[list[Row]]:
    """Neighbours, where joins(the one before, one) says that they belong together."""
    run: list[Row] = []
    for row in rows:
        if run and not joins(run[-1], row):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _merged(rows: list[Row]) -> list[Row]:
    """Of groups that overlap the longest, or the likeliest of the longest."""
    merged: list[Row] = []
    for group in sorted(rows, key=lambda row: row["start"]):
        if not merged or not merged[-1]["start"] <= group["start"] < merged[-1]["end"]:
            merged.append(group)
        elif _rank(group) > _rank(merged[-1]):
            merged[-1] = group
    return merged


def _rank(one: Row) -> tuple[int, float]:
    return one["end"] - one["start"], one["score"]


TASK = Task(
    name="token-classification",
    summary="Say which class each token of a text has, and which names it holds.",
    input=Input("texts", "texts", "The texts."),
    output="value",
    run=run,
    options=(
        Option("aggregation_strategy", "text", "none", "How tokens become groups.", STRATEGIES),
        Option("ignore_labels", "texts", ("O",), "Classes that are left out."),
        Option(
            "stride", "int", None, "Read long texts in windows that share so many tokens.", least=0
        ),
        Option("batch_size", "int", 32, "Texts computed at a time.", least=1),
    ),
    spans=lambda given: given,
    command=Command("tag", "", {"aggregation_strategy": "simple"}),
)
