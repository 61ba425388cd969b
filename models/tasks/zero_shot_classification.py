"""The task zero-shot-classification: which of any labels fit a text.

The method is that of Yin et al. (2019): a model of natural language inference says whether a text
entails the sentence that a label makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"sequence", "labels", "scores"} of each text, the likeliest labels first; a list of them
    for a list of texts.

    One label of several fits: their scores add up to 1. With multi_label, and for a single label,
    each score is that of entailment against contradiction. ValueError for missing labels, for a
    template without {}, and for a checkpoint without a class of entailment.
    """
    rows, template = as_list(texts), options["hypothesis_template"]
    labels = options["candidate_labels"]
    if isinstance(labels, str):
        labels = [label.strip() for label in labels.split(",")]
    labels = [label for label in labels if label]
    if not labels:
        raise ValueError("zero-shot-classification: candidate_labels is missing; name the labels")
    if "{}" not in template:
        raise ValueError(
            f"zero-shot-classification: hypothesis_template {template!r} has no {{}} for the label"
        )
    entails = _entailment(model.labels)
    several = options["multi_label"] or len(labels) == 1
    shares, done = np.zeros((len(rows), len(labels)), np.float64), 0
    hypotheses = [template.replace("{}", label) for label in labels]
    pairs = ((text, hypothesis) for text in rows for hypothesis in hypotheses)
    encoded = model.encoded_pairs(list(pairs), "only_first")
    for chosen, logits in model.batches(encoded, options["batch_size"]):
        values = np.asarray((yield logits.readback()), np.float64)
        score = values[:, entails]
        if several:  # as the published pipeline chooses the class of contradiction
            score = 1 / (1 + np.exp(values[:, -1 if entails == 0 else 0] - score))
        shares.reshape(-1)[chosen] = score
        done += len(chosen)
        yield Progress("classify", done, shares.size)
    if not several:
        shares = np.exp(shares - shares.max(-1, keepdims=True, initial=-np.inf))
        shares /= shares.sum(-1, keepdims=True)
    answers = [_sorted(text, labels, scores) for text, scores in zip(rows, shares, strict=True)]
    return answers[0] if isinstance(texts, str) else answers


def _entailment(labels: tuple[str, ...]) -> int:
    """The number of the class of entailment."""
    for i, label in enumerate(labels):
        if label.lower().startswith("entail"):
            return i
    raise ValueError(
        "zero-shot-classification: no class of the checkpoint begins with entail; it has "
        f"{', '.join(labels[:5])}. Name it in id2label of config.json"
    )


def _sorted(text: str, labels: list[str], scores: Any) -> dict[str, Any]:
    order = np.argsort(-scores, kind="stable").tolist()
    return {
        "sequence": text,
        "labels": [labels[i] for i in order],
        "scores": [float(scores[i]) for i in order],
    }


TASK = Task(
    name="zero-shot-classification",
    summary="Say which of any labels fit a text.",
    input=Input("texts", "texts", "The texts."),
    output="value",
    run=run,
    options=(
        Option("candidate_labels", "texts", (), "The labels, or a text with commas between them."),
        Option(
            "hypothesis_template",
            "text",
            "This example is {}.",
            "The sentence that a label makes, in place of {}.",
        ),
        Option("multi_label", "bool", False, "Several labels may fit, each with its own score."),
        Option("batch_size", "int", 32, "Pairs computed at a time.", least=1),
    ),
    builds_on=("text-classification",),
    command=Command("choose", ""),
)
