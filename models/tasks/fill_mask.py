"""The task fill-mask: the words that a text leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core import ops
from rushlight.core.tensor.convert import tensor
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list


def run(model: Any, texts: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The likeliest `top_k` tokens of each text's mask, {"score", "token", "token_str",
    "sequence"}; a list of such lists where a text has several masks.

    ValueError for a text without a mask, and for a tokenizer that has none.
    """
    rows, mask = as_list(texts), model.mask_id
    encoded = model.encoded(rows)
    if mask is None:
        raise ValueError("fill-mask: the checkpoint's tokenizer has no token for a masked word")
    places = [[j for j, token in enumerate(e.ids) if token == mask] for e in encoded]
    for i, some in enumerate(places):
        if not some:
            name = model.tokenizer.id_to_token(mask)
            raise ValueError(
                f"fill-mask: text {i}, {rows[i][:40]!r}, has no {name} within the first "
                f"{model.max_length} tokens"
            )
    by_text: list[Any] = [None] * len(rows)
    done = 0
    for chosen, logits in model.batches(encoded, options["batch_size"]):
        width = logits.shape[1]
        flat = [row * width + j for row, i in enumerate(chosen) for j in places[i]]
        picked = logits.reshape(-1, logits.shape[-1]).index_select(
            0, tensor(flat, device=model.device)
        )
        scores = np.asarray((yield ops.softmax(picked, -1).readback()))
        start = 0
        for i in chosen:
            text_scores = scores[start : start + len(places[i])]
            start += len(places[i])
            answers = [
                _filled(model, encoded[i].ids, j, row, options["top_k"], len(text_scores) == 1)
                for j, row in zip(places[i], text_scores, strict=True)
            ]
            by_text[i] = answers[0] if len(answers) == 1 else answers
        done += len(chosen)
        yield Progress("fill", done, len(rows))
    return by_text[0] if isinstance(texts, str) else by_text


def _filled(model: Any, ids: list[int], place: int, scores: Any, most: int, alone: bool) -> Any:
    """The likeliest tokens at `place`; other masks stay in the sequence if it is not alone."""
    decode, answers = model.tokenizer.decode, []
    for token in np.argsort(-scores, kind="stable")[:most].tolist():
        filled = [*ids[:place], token, *ids[place + 1 :]]
        answers.append(
            {
                "score": float(scores[token]),
                "token": token,
                "token_str": decode([token], skip_special_tokens=False),
                "sequence": decode(filled, skip_special_tokens=alone),
            }
        )
    return answers


TASK = Task(
    name="fill-mask",
    summary="Write the words that a text leaves out.",
    input=Input("texts", "texts", "The texts, with the tokenizer's mask in each."),
    output="value",
    run=run,
    options=(
        Option("top_k", "int", 5, "Words for each mask, the likeliest first.", least=1),
        Option("batch_size", "int", 32, "Texts computed at a time.", least=1),
    ),
    command=Command("fill", ""),
)
