"""The task question-answering: the part of a text that answers a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.core.io.text.pairs import ADDED, PairEncoding
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

WIDEST, FARTHEST = 384, 128  # tokens of a window, and of what two windows share
_OUT = -10000.0  # the logit of what is no part of an answer
Answer = dict[str, Any]


def run(model: Any, given: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"score", "start", "end", "answer"} of each question, a list of them for top_k above 1.

    start and end are places in the context. A context longer than a window is read in several,
    which share `doc_stride` tokens. Scores are the products of the probabilities of a first and a
    last token (Chen et al., 2017); equal answers are added up. With handle_impossible_answer ""
    is an answer, too. ValueError for an empty question or context, and where the question fills
    the window.
    """
    asked = [given] if isinstance(given, Mapping) else list(given)
    for i, question in enumerate(asked):
        for name in ("question", "context"):
            if not question[name].strip():
                raise ValueError(f"question-answering: {name} {i} is empty")
    limit, stride = options["max_seq_len"], options["doc_stride"]
    width = min(model.max_length, WIDEST if limit is None else limit)
    stride = min(width // 2, FARTHEST) if stride is None else stride
    waiting: dict[int, tuple[int, PairEncoding]] = {}
    by_question: list[list[Answer]] = [[] for _ in asked]
    empty, done = [float("inf")] * len(asked), 0

    def parts() -> Iterator[PairEncoding]:
        for i, pair in enumerate(asked):
            for window in model.windows_of(pair["question"], pair["context"], width, stride):
                waiting[len(waiting) + done] = i, window
                yield window

    for chosen, logits in model.batches(parts(), options["batch_size"]):
        values = np.asarray((yield logits.readback()))
        for number, row in zip(chosen, values, strict=True):
            i, window = waiting.pop(number)
            done += 1
            none = _read(asked[i]["context"], window, row[: len(window)], options, by_question[i])
            empty[i] = min(empty[i], none)
        yield Progress("answer", done, max(done + len(waiting), len(asked)))
    for i, (rows, none) in enumerate(zip(by_question, empty, strict=True)):
        if options["handle_impossible_answer"]:
            rows.append({"score": none, "start": 0, "end": 0, "answer": ""})
        if not rows:
            raise ValueError(f"question-answering: context {i} has no tokens")
        rows.sort(key=lambda row: -row["score"])
    most = options["top_k"]
    answers: list[Any] = [rows[0] if most == 1 else rows[:most] for rows in by_question]
    return answers[0] if isinstance(given, Mapping) else answers


def _read(
    context: str,
    window: PairEncoding,
    logits: NDArray[Any],
    options: Mapping[str, Any],
    found: list[Answer],
) -> float:
    """Add the answers of a window to `found`; returns the score of there being none."""
    inside = np.array(window.texts) == 1
    allowed = inside.copy()
    allowed[0] |= window.texts[0] == ADDED  # the first token stands for no answer
    first, last = (_softmax(np.where(allowed, column, _OUT)) for column in logits.T)
    none = float(first[0] * last[0])
    first, last = np.where(inside, first, 0), np.where(inside, last, 0)
    # scores[d, i] of the answer from token i to i + d
    count = min(options["max_answer_len"], len(window))
    scores = np.zeros((count, len(window)), first.dtype)
    for d in range(count):
        scores[d, : len(window) - d] = first[: len(window) - d] * last[d:]
    # Answers that are the same after they are widened to words count once.
    most, by_words = options["top_k"], options["align_to_words"]
    order = _highest(scores.reshape(-1), most * 2 + 10 if by_words else most)
    for flat_index in order.tolist():
        d, i = divmod(flat_index, len(window))
        if not (inside[i] and inside[i + d : i + d + 1].any()):
            continue
        start, end = _places(context, window, i, i + d, by_words)
        text, score = context[start:end], float(scores[d, i])
        same = next((answer for answer in found if answer["answer"].lower() == text.lower()), None)
        if same is not None:
            same["score"] += score
        else:
            found.append({"score": score, "start": start, "end": end, "answer": text})
    return none


def _softmax(x: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(x - x.max())
    out: NDArray[Any] = e / e.sum()
    return out


def _highest(scores: NDArray[Any], most: int) -> NDArray[Any]:
    """The places of the highest scores, in order."""
    if most < len(scores):
        some = np.argpartition(-scores, most)[:most]
    else:
        some = np.arange(len(scores))
    return some[np.argsort(-scores[some], kind="stable")]


def _places(
    context: str, window: PairEncoding, first: int, last: int, whole: bool
) -> tuple[int, int]:
    """The places in the context of the tokens first to last, or of their whole words."""
    texts, words, offsets = window.texts, window.words, window.offsets

    def joined(i: int) -> bool:
        """Whether token i goes on with the word before it, even if all of a text is one."""
        same = texts[i - 1] == texts[i] == 1 and words[i - 1] == words[i]
        return same and not context[offsets[i - 1][1] : offsets[i][0] + 1][:1].isspace()

    if whole:
        while first and joined(first):
            first -= 1
        while last + 1 < len(words) and joined(last + 1):
            last += 1
    return offsets[first][0], offsets[last][1]


TASK = Task(
    name="question-answering",
    summary="Find the part of a text that answers a question.",
    input=Input("questions", "questions", "The question and the context, or several of them."),
    output="value",
    run=run,
    options=(
        Option("top_k", "int", 1, "Answers of each question, the likeliest first.", least=1),
        Option("max_answer_len", "int", 15, "The most tokens of an answer.", least=1),
        Option(
            "doc_stride", "int", None, "Tokens that two windows share; else 128 at most.", least=0
        ),
        Option(
            "max_seq_len", "int", None, "The most tokens of a window; else 384 at most.", least=1
        ),
        Option("handle_impossible_answer", "bool", False, "There may be no answer."),
        Option("align_to_words", "bool", True, "Widen answers to whole words."),
        Option("batch_size", "int", 32, "Windows computed at a time.", least=1),
    ),
    spans=lambda given: (
        given["context"]
        if isinstance(given, Mapping)
        else [question["context"] for question in given]
    ),
    command=Command("ask", ""),
)
