"""Contrastive search (Su et al., 2022): likely tokens whose hidden state repeats no earlier one.

Of the top_k likeliest tokens the one with the largest (1 - penalty_alpha) * p - penalty_alpha * s
is taken, where s is the largest cosine of its hidden state with those of the tokens before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import linear_mode
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import from_numpy
from rushlight.models.generation.followed import banned, rules_of
from rushlight.models.generation.pictures import PicturePrompt
from rushlight.models.generation.samplers.repetition import penalized
from rushlight.models.generation.sampling import Array, Options
from rushlight.models.generation.session import longest_part
from rushlight.models.generation.steps import GenerationSteps
from rushlight.models.generation.strategies.rows import RowSteps, check_growth
from rushlight.models.generation.streaming import Telling

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM


def contrastive(model: CausalLM, ids: list[int], options: Options) -> GenerationSteps:
    """The steps of one answer: yields tokens, and readbacks whose values it is sent.

    ValueError for a model that has no hidden states apart from its logits, for a prompt with
    pictures, and if prompt and answer do not fit the context.
    """
    o = options
    if not hasattr(model, "hidden") or isinstance(ids, PicturePrompt):
        raise ValueError(
            f"generate: penalty_alpha is not supported for {model.config.model_type}"
            " or for prompts with pictures; leave it out"
        )
    check_growth(model, len(ids), o.most(len(ids)), "penalty_alpha")
    rules = rules_of(o, len(ids), model.vocab_size) if banned(o) else None
    cache, states = model.new_cache(1, o.cache_type), []
    cache.expect([len(ids)])
    size, said = longest_part(cache), list(ids)
    with autograd.no_grad(), linear_mode(o.linear):
        for start in range(0, len(ids), size):
            part = from_numpy(np.array([ids[start : start + size]], np.int64)).to(model.device)
            hidden = model.hidden(part, cache)
            states.append((yield hidden[0].float().readback()))
        logits: Array = yield model.logits(hidden[:, -1:])[:, -1].float().readback()
    before = _unit(np.concatenate(states))
    row, count = logits[0], min(o.top_k, model.vocab_size)
    rows = RowSteps(model, count, cache, o, hidden=True)
    telling = Telling(model.tokenizer, o, len(ids))
    while True:
        scores = _scores(row, o, said, len(ids), rules)
        order = np.argsort(-scores, kind="stable")[:count]
        outputs = rows.step(order)
        after: Array = yield outputs[0].readback()
        hidden_states: Array = yield outputs[1].readback()
        p = np.exp(scores - scores.max())
        p /= p.sum()
        vectors = _unit(hidden_states)
        alike = (vectors @ before.T).max(1)
        best = int(((1 - o.penalty_alpha) * p[order] - o.penalty_alpha * alike).argmax())
        token = int(order[best])
        said.append(token)
        told = telling.add(token, float(np.log(p[token])))
        yield told
        if told.stopped:
            return
        rows.reorder(np.full(count, best))
        before = np.concatenate([before, vectors[best : best + 1]])
        row = after[best]


def _scores(row: Array, o: Options, said: list[int], first: int, rules: Any) -> Array:
    scores = penalized(row.astype(np.float64), o, said[:first], said[first:])
    if not np.isfinite(row).all():
        raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
    if rules is None:
        return scores
    ruled: Array = rules(scores[None], [said], drawn=False)[0]
    return ruled


def _unit(vectors: Array) -> Array:
    wide = vectors.astype(np.float64)
    out: Array = wide / np.linalg.norm(wide, axis=1, keepdims=True).clip(1e-12)
    return out
