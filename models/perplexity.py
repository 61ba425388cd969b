"""Perplexity of a text under a language model, and the divergence from another model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import linear_mode
from rushlight.core.functional.joining import stack
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.generate import CausalLM
from rushlight.models.generation.session import CHUNK
from rushlight.models.model import Model

Array = npt.NDArray[Any]
# progress(windows done, all of them)
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text; `error` and `kl_error` are standard errors of the mean.

    tokens: the number of predictions that are counted, of `windows` pieces of the text. kl: the
    mean divergence sum(p log(p / q)) of the model's q from the base's p, in nats. same_top: the
    share of places where both find the same token likeliest. Without a base these are None.
    """

    perplexity: float
    error: float
    tokens: int
    windows: int
    kl: float | None = None
    kl_error: float | None = None
    same_top: float | None = None


def perplexity(
    model: Model,
    text: str | Sequence[int],
    *,
    context: int = 512,
    stride: int | None = None,
    base: Model | None = None,
    linear: str = "fast",
    cache_type: str = "float32",
    progress: Progress | None = None,
) -> Perplexity:
    """exp of the mean of -log p(token), over the second half of every window of the text.

    The definition is llama.cpp's (tools/perplexity): the text's tokens are cut into windows of
    `context`, without a rest; a tokenizer's first special token takes the place of each window's
    first; and predictions made from position context // 2 on are counted, except the last one's,
    which lies outside. stride: windows begin that many tokens apart, by default `context`, and
    count their last `stride` predictions at most. base: a model of the same vocabulary to compare
    with. linear, cache_type: as in generation; the base has a float32 cache.

    text: token ids, or a text for the model's tokenizer. ValueError if it is shorter than a window,
    if the model's context is, if the vocabularies differ, or for another kind of model.
    """
    model, base = causal(model), None if base is None else causal(base)
    ids, first = _tokens(model, text)
    step, counted = _cut(model, len(ids), context, stride)
    if base is not None and base.vocab_size != model.vocab_size:
        raise ValueError(
            f"perplexity: the base has {base.vocab_size} tokens, the model {model.vocab_size}; "
            "compare models with one vocabulary"
        )
    starts = range(0, len(ids) - context + 1, step)
    cache = model.new_cache(1, cache_type)
    other = None if base is None else (base, base.new_cache())
    sums = _Sums()
    for done, start in enumerate(starts, 1):
        window = ids[start : start + context]
        if first is not None:
            window[0] = first
        with autograd.no_grad(), linear_mode(linear):
            for figures in _parts(model, cache, other, window, context - 1 - counted):
                sums.add(figures.numpy())
        if progress is not None:
            progress(done, len(starts))
    return sums.result(len(starts))


def causal(model: Model) -> CausalLM:
    """The language model that `model` is; ValueError for another kind."""
    if not isinstance(model, CausalLM):
        raise ValueError(f"a {model.config.model_type} is no language model")
    return model


def _tokens(model: CausalLM, text: str | Sequence[int]) -> tuple[list[int], int | None]:
    """The ids of a text, and the special token that texts begin with, if there is one."""
    ids = model.prompt_ids(text)
    if not isinstance(text, str) or model.tokenizer is None:
        return ids, None
    special = model.tokenizer.encode("", add_special_tokens=True).ids
    return ids, special[0] if special and ids[0] == special[0] else None


def _cut(model: CausalLM, count: int, context: int, stride: int | None) -> tuple[int, int]:
    """How far apart windows begin, and how many predictions of each are counted."""
    if not 4 <= context <= model.context_length:
        raise ValueError(
            f"perplexity: context is {context}; it must be from 4 to the model's "
            f"{model.context_length}"
        )
    if count < context:
        raise ValueError(
            f"perplexity: the text has {count} tokens, fewer than the context of {context}; pass a "
            "longer text or a smaller context"
        )
    step = context if stride is None else stride
    if step < 1:
        raise ValueError(f"perplexity: stride is {step}; it must be at least 1")
    return step, min(step, context - 1 - context // 2)


def _parts(
    model: CausalLM,
    cache: Cache,
    other: tuple[CausalLM, Cache] | None,
    window: list[int],
    first: int,
) -> Iterator[Tensor]:
    """For pieces of a window (1 or 3, n): -log p, and with a base divergence and agreement.

    first: the position of the first prediction that is counted.
    """
    cache.truncate(0)
    if other is not None:
        other[1].truncate(0)
    for start in range(0, len(window), CHUNK):
        end = min(start + CHUNK, len(window))
        ids = window[start:end]
        # Predictions of this piece that are counted; the window's last has no token to predict.
        keep = min(end, len(window) - 1) - max(start, first)
        extra = int(end == len(window))
        logits = _logits(model, cache, ids, keep, extra)
        base = None if other is None else _logits(*other, ids, keep, extra)
        if keep < 1:
            continue
        after = window[max(start, first) + 1 : max(start, first) + 1 + keep]
        target = tensor(after, device=logits.device).unsqueeze(1)
        rows = [-logits.gather(1, target).squeeze(1)]
        if base is not None:
            base = base.to(logits.device)
            p = base.exp()
            rows.append((p * (base - logits)).where(p > 0, 0.0).sum(1))
            rows.append((base.argmax(1) == logits.argmax(1)).float())
        yield stack(rows)


def _logits(model: CausalLM, cache: Cache, ids: list[int], keep: int, extra: int) -> Tensor:
    """Logarithms of probabilities after the last `keep` tokens before `extra`, (keep, vocab)."""
    token_ids = tensor([ids], device=model.device)
    logits = model(token_ids, cache, logits_to_keep=max(keep, 0) + extra or 1)[0]
    out: Tensor = logits[: max(keep, 0)].float().log_softmax(-1)
    return out


class _Sums:
    """Columns of numbers by place, and their means."""

    def __init__(self) -> None:
        self.columns: list[Array] = []

    def add(self, part: Array) -> None:
        """Columns (1 or 3, n) of one piece."""
        self.columns.append(part.astype(np.float64))

    def result(self, windows: int) -> Perplexity:
        """Means with their standard errors."""
        rows = np.concatenate(self.columns, 1)
        count = rows.shape[1]
        means = rows.mean(1)
        errors = rows.std(1) / math.sqrt(max(count - 1, 1))
        value = float(np.exp(means[0]))
        if len(rows) == 1:
            return Perplexity(value, value * float(errors[0]), count, windows)
        return Perplexity(
            value,
            value * float(errors[0]),
            count,
            windows,
            float(means[1]),
            float(errors[1]),
            float(means[2]),
        )
