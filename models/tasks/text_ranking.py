"""The task text-ranking: a cross-encoder says how well texts answer a query.

So do language models that are asked for "yes" or "no", as Qwen3's rerankers are (Zhang et al.,
2025): the score is that of the one beside the other as the next token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list

# The classes of torch that a checkpoint may name for the score, and what they do.
ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "none"}
# What a language model is told, and asked for where the options say nothing.
JUDGE = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".'
)
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_STEP = 16  # widths of batches are multiples of it, so that captures are reused


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The texts, best first: {"corpus_id", "score"}, the number and the score of each, with "text"
    if asked for, as sentence-transformers' CrossEncoder.rank gives them.

    ValueError for a head of more than one class, and for a missing query.
    """
    rows, query, function = as_list(texts), options["query"], options["function_to_apply"]
    if query is None:
        raise ValueError("text-ranking: query is missing; say what the texts are ranked for")
    if not hasattr(model, "labels"):
        relevance = yield from _judged(model, query, rows, options)
        return _ordered(relevance, rows, options)
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
    return _ordered(relevance, rows, options)


def _ordered(
    relevance: list[float], rows: list[str], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    order = sorted(range(len(rows)), key=lambda i: -relevance[i])[: options["top_k"]]
    more = options["return_documents"]
    return [
        {"corpus_id": i, "score": relevance[i], **({"text": rows[i]} if more else {})}
        for i in order
    ]


def _word(model: Any, word: str) -> int:
    """The token that is a word; ValueError where it is several."""
    ids = model.encode_text(word, add_special_tokens=False)
    if len(ids) != 1:
        raise ValueError(f"text-ranking: {word!r} is {len(ids)} tokens of this model, not one")
    number: int = ids[0]
    return number


def _judged(model: Any, query: str, rows: list[str], options: Mapping[str, Any]) -> Run:
    """The score of each text: how much likelier "yes" is than "no" as a language model's answer."""
    asked = options["instruction"] or INSTRUCTION
    wanted = tensor([_word(model, word) for word in ("yes", "no")], device=model.device)
    prompts: list[list[int]] = []
    for text in rows:
        body = f"<Instruct>: {asked}\n<Query>: {query}\n<Document>: {text}"
        told = [{"role": "system", "content": JUDGE}, {"role": "user", "content": body}]
        prompts.append(model.chat_ids(told, enable_thinking=False))
    order = sorted(range(len(rows)), key=lambda i: -len(prompts[i]))
    relevance, size = [0.0] * len(rows), options["batch_size"]
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        longest = len(prompts[chosen[0]])
        width = max(longest, min(-(-longest // _STEP) * _STEP, model.context_length))
        padded = [prompts[i] + [0] * (width - len(prompts[i])) for i in chosen]
        lengths = tensor([len(prompts[i]) for i in chosen], device=model.device)
        with autograd.no_grad():
            ids = tensor(padded, device=model.device)
            logits = model(ids, lengths=lengths, logits_to_keep=1)[:, 0].float()
            both = logits.index_select(1, wanted)
            score = both[:, 0] - both[:, 1]
            score = score if options["function_to_apply"] == "none" else score.sigmoid()
        for i, found in zip(chosen, (yield score.readback()), strict=True):
            relevance[i] = float(found)
        yield Progress("rank", min(start + size, len(order)), len(rows))
    return relevance


TASK = Task(
    name="text-ranking",
    summary="Sort texts by how well they answer a query.",
    input=Input("texts", "texts", "The texts to sort."),
    output="value",
    run=run,
    options=(
        Option("query", "text", None, "What the texts are to answer."),
        Option("instruction", "text", None, "What a language model is to judge by."),
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
    builds_on=("text-classification", "chat"),
    command=Command("rank", ""),
)
