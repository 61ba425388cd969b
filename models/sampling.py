"""Sampling: from the logits of a step to the next token, by the published rules.

Applied in this order: logit bias; repetition penalty (Keskar et al., 2019); frequency and
presence penalties (as in OpenAI's API); temperature; top-k (Fan et al., 2018); top-p (Holtzman et
al., 2019); min-p (Nguyen et al., 2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import ops
from rushlight.core.backends import Generator as Random
from rushlight.core.tensor import Tensor

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Options:
    """How to choose tokens and when to stop; ValueError or TypeError for what is out of range.

    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 leave all tokens in. logit_bias: token
    id -> number added to its logit. stop: text that ends the answer and is not part of it.
    overflow: "error" raises where the context is full, "shift" drops the oldest half. linear: the
    mode of products with quantized weights, see `rl.set_linear_mode`.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: str | Sequence[str] = ()
    overflow: str = "error"
    linear: str = "fast"

    def __post_init__(self) -> None:
        _whole("max_new_tokens", self.max_new_tokens, 1)
        _whole("top_k", self.top_k, 0)
        _within("temperature", self.temperature, 0, 1e6)
        _within("top_p", self.top_p, 0, 1, open_low=True)
        _within("min_p", self.min_p, 0, 1)
        _within("repetition_penalty", self.repetition_penalty, 0, 1e6, open_low=True)
        _within("frequency_penalty", self.frequency_penalty, -1e6, 1e6)
        _within("presence_penalty", self.presence_penalty, -1e6, 1e6)
        if self.seed is not None:
            _whole("seed", self.seed, 0)
        if any(not isinstance(s, str) or not s for s in self.stops):
            raise ValueError(f"generate: stop is {self.stop!r}; each must be a text with letters")
        if self.linear not in ("exact", "fast"):
            raise ValueError(f'generate: linear is {self.linear!r}; it must be "exact" or "fast"')
        if self.overflow not in ("error", "shift"):
            raise ValueError(
                f'generate: overflow is {self.overflow!r}; it must be "error" or "shift"'
            )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"generate: {name} is {value!r}; it must be a whole number")
    if value < least:
        raise ValueError(f"generate: {name} is {value}; it must be at least {least}")


def _within(name: str, value: Any, low: float, high: float, *, open_low: bool = False) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"generate: {name} is {value!r}; it must be a number")
    if not low <= value <= high or (open_low and value == low) or math.isnan(value):
        raise ValueError(f"generate: {name} is {value}; it must be from {low} to {high}")


def checked_bias(options: Options, vocab: int) -> None:
    """ValueError for a logit bias of a token that is not there."""
    bad = [i for i in options.logit_bias if not 0 <= i < vocab]
    if bad:
        raise ValueError(f"generate: logit_bias names token {bad[0]}; there are {vocab}")


class Sampler:
    """Chooses token after token by `options`; keeps what the penalties need of the past."""

    def __init__(self, options: Options, vocab: int, prompt: Sequence[int]) -> None:
        self.options, self.vocab = options, vocab
        self.seen = set(prompt)
        self.counts: dict[int, int] = {}
        self.random = Random(options.seed or 0)
        checked_bias(options, vocab)

    def pick(self, logits: Tensor) -> Tensor:
        """What is to be read of logits (vocab,) and given to `taken`: all of them."""
        return logits.float()

    def taken(self, values: Array) -> tuple[int, float]:
        """`choose` under the name that samplers on other devices share."""
        return self.choose(values)

    def choose(self, logits: Array) -> tuple[int, float]:
        """The next token for logits (vocab,), and the logarithm of its probability.

        The probability is the model's own: before temperature and cuts, after bias and penalties.
        """
        scores = self._adjusted(logits.astype(np.float64))
        if not np.isfinite(scores.max()):
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        shifted = scores - scores.max()
        log_total = np.log(np.exp(shifted).sum())
        token = int(scores.argmax()) if self.options.temperature == 0 else self._draw(scores)
        self.seen.add(token)
        self.counts[token] = self.counts.get(token, 0) + 1
        return token, float(shifted[token] - log_total)

    def _adjusted(self, scores: Array) -> Array:
        o = self.options
        for token, bias in o.logit_bias.items():
            scores[token] += bias
        if o.repetition_penalty != 1 and self.seen:
            seen = np.fromiter(self.seen, np.int64)
            old = scores[seen]
            scores[seen] = np.where(old < 0, old * o.repetition_penalty, old / o.repetition_penalty)
        if (o.frequency_penalty or o.presence_penalty) and self.counts:
            tokens = np.fromiter(self.counts, np.int64)
            counts = np.fromiter(self.counts.values(), np.float64)
            scores[tokens] -= counts * o.frequency_penalty + o.presence_penalty
        return scores

    def _draw(self, scores: Array) -> int:
        o = self.options
        order = np.argsort(-scores, kind="stable")
        if 0 < o.top_k < order.size:
            order = order[: o.top_k]
        weights = np.exp((scores[order] - scores[order[0]]) / o.temperature)
        weights /= weights.sum()
        if o.top_p < 1:
            # The smallest set that holds top_p: a token stays while those before it hold less.
            keep = int((np.cumsum(weights) - weights < o.top_p).sum())
            order, weights = order[:keep], weights[:keep]
        if o.min_p > 0:
            stay = weights >= o.min_p * weights[0]
            order, weights = order[stay], weights[stay]
        point = float(ops.rand(1, generator=self.random).item()) * weights.sum()
        return int(order[min(int(np.searchsorted(np.cumsum(weights), point, "right")),
                             order.size - 1)])  # fmt: skip
