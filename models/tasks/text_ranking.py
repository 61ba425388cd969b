"""The task text-ranking: a cross-encoder says how well texts answer a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list

# The classes of torch that a checkpoint may name for the score, and what they do.
ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "none"}


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The texts, best first: {"corpus_id", "score"}, the number and the score of each, with "text"
    if asked for, as sentence-transformers' CrossEncoder.rank gives them.

    ValueError for a head of more than one class, and for a missing query.
    """
    rows, query, function = as_list(texts), options["query"], options["function_to_apply"]
    if query is None:
        raise ValueError("text-ranking: query is missing; say what the texts are ranked for")
    if len(model.labels) != 1:
        raise ValueError(
            f"text-ranking: the checkpoint has {len(model.labels)} classes, "
            f"{', '.join(model.labels[:5])}; a cross-encoder that ranks has one score"
        )
    if function is None:
        named = str(model.activation or "Sigmoid").rpartition(".")[2]
        if named not in ACTIVATIONS:
            raise ValueError(
                f"text-ranking: config.json: activation_fn {named!r} is not supported; pass "
                "function_to_apply: sigmoid, none"
            )
        function = ACTIVATIONS[named]
    relevance, done = [0.0] * len(rows), 0
    pairs = model.encoded_pairs([(query, text) for text in rows], "longest_first")
    for chosen, logits in model.batches(pairs, options["batch_size"]):
        scores = yield (logits.sigmoid() if function == "sigmoid" else logits).readback()
        for i, row in zip(chosen, scores, strict=True):
            relevance[i] = float(row[0])
        done += len(chosen)
        yield Progress("rank", done, len(rows))
    order = sorted(range(len(rows)), key=lambda i: -relevance[i])[: options["top_k"]]
    more = options["return_documents"]
    return [
        {"corpus_id": i, "score": relevance[i], **({"text": rows[i]} if more else {})}
        for i in order
    ]


TASK = Task(
    name="text-ranking",
    summary="Sort texts by how well they answer a query.",
    input=Input("texts", "texts", "The texts to sort."),
    output="value",
    run=run,
    options=(
        Option("query", "text", None, "What the texts are to answer."),
        Option("top_k", "int", None, "Texts to return, the best first; else all.", least=1),
        Option("return_documents", "bool", False, "Return the texts, too."),
        Option(
            "function_to_apply",
            "text",
            None,
            "What scores pass; else the checkpoint says it.",
            choices=("sigmoid", "none"),
        ),
        Option("batch_size", "int", 32, "Pairs computed at a time.", least=1),
    ),
    builds_on=("text-classification",),
    command=Command("rank", ""),
)
