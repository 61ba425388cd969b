"""Sampling on the logits' device: the rules of `sampling` in tensor ops, without a readback.

Three numbers are read back per token: its id, its log-probability and the largest score. The
token also stays on the device as the input of the next step.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rushlight.core import ops
from rushlight.core.backends import Device
from rushlight.core.backends import Generator as Random
from rushlight.core.basis.dtype import float32, int64
from rushlight.core.jit.function import jit
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Array, Options, checked

# The score of a masked token: finite, as WGSL does not define arithmetic with infinity.
HIDDEN = -1e30
# The range is cut into this many parts in a step of the search for top_p. The search takes memory
# per row and part, so more than a few rows use two.
_PARTS, _FEW = 4, 8


class Rules(NamedTuple):
    """The active rules, which decide the ops of a step. The rules' numbers lie on the device."""

    drawn: bool = False
    biased: bool = False
    penalized: bool = False
    counted: bool = False
    top_k: int = 0
    top_p: bool = False
    min_p: bool = False


class DeviceSampler:
    """Chooses one token after another in float32; its state stays on the device.

    rows: the number of answers that are sampled together, with the same options and draws. Each
    answer is what it would be alone. token: (rows, 1), the last choice for each row. A sampler is
    reused for later answers: its tensors keep their memory, so that captured steps stay valid.
    """

    def __init__(self, vocab: int, device: Device, rows: int = 1) -> None:
        self.vocab, self.device, self.rows = vocab, device, rows
        self.token = ops.zeros(rows, 1, dtype=int64, device=device)
        self.rules = Rules()
        self.mask: Tensor | None = None  # true for allowed tokens
        self._random = Random(0)
        self._held: dict[str, Tensor] = {}
        self._captured = jit(partial(DeviceSampler.choose, weakref.proxy(self)))

    def begin(self, options: Options, *prompts: Sequence[int]) -> None:
        """Begin answers to `prompts`, one per row, with `options`.

        ValueError or TypeError for a bias or a mask that does not fit, see `sampling.checked`.
        """
        o, vocab = options, self.vocab
        checked(o, vocab, self.device)
        self._random.manual_seed(o.seed or 0)
        if o.logit_bias:
            bias = np.zeros(vocab, np.float32)
            bias[list(o.logit_bias)] = list(o.logit_bias.values())
            self.hold("bias", bias.clip(HIDDEN))
        penalized = o.repetition_penalty != 1
        if penalized:
            seen = np.zeros((self.rows, vocab), np.bool_)
            for row, prompt in zip(seen, prompts, strict=True):
                row[list(prompt)] = True
            self.hold("seen", seen)
        counted = bool(o.frequency_penalty or o.presence_penalty)
        if counted:
            self.hold("counts", np.zeros((self.rows, vocab), np.float32))
        numbers = (
            o.temperature,
            o.repetition_penalty,
            o.frequency_penalty,
            o.presence_penalty,
            o.top_p,
            o.min_p,
        )
        self.hold("numbers", np.array(numbers, np.float32))
        if o.token_mask is None or isinstance(o.token_mask, Tensor):
            self.mask = o.token_mask  # the caller's tensor: writes to it take effect at once
        else:
            self.mask = self.hold("mask", np.asarray(o.token_mask))
        self.rules = Rules(
            o.temperature != 0,
            bool(o.logit_bias),
            penalized,
            counted,
            o.top_k if o.top_k < vocab else 0,
            o.top_p < 1,
            o.min_p > 0,
        )

    def hold(self, name: str, values: Array) -> Tensor:
        """Store values in the memory that the last answer's values had."""
        new = from_numpy(values).to(self.device)
        if name in self._held:
            return self._held[name].copy_(new)
        # On cpu the array belongs to the caller.
        self._held[name] = new.clone()
        return self._held[name]

    def set_token(self, token: int) -> None:
        """Set the last token of every row, if the sampler did not choose it."""
        self.token.copy_(from_numpy(np.array([[token]], np.int64)).to(self.device))

    def pick(self, logits: Tensor) -> Tensor:
        """Choose by logits (rows, vocab): (rows, 3) float32; `token_of` decodes a row."""
        return self._captured(logits, self.rules, self.mask)

    def choose(self, logits: Tensor, rules: Rules, mask: Tensor | None) -> Tensor:
        """`pick` as a part of a captured step."""
        scores = self._adjusted(logits.float(), rules, mask)
        if rules.drawn:
            token, top = self._draw(scores, rules)
            chosen = scores.gather(1, token)
        else:
            token = scores.argmax(1, keepdim=True)
            chosen = top = scores.gather(1, token)
        # float32 holds every id below 2**24 exactly.
        named = token.float()
        if rules.penalized or rules.counted:
            picked = ops.arange(self.vocab, dtype=float32, device=self.device) == named
            if rules.penalized:
                seen = self._held["seen"]
                seen.copy_(seen | picked)
            if rules.counted:
                self._held["counts"].add_(picked.float())
        self.token.copy_(token)
        logprob = (chosen - top) - (scores - top).exp().sum(1, keepdim=True).log()
        return ops.cat([named, logprob, top], 1)

    def token_of(self, values: Array) -> tuple[int, float]:
        """The token and its log-probability from a row of `pick`, as read back.

        The probability is the model's: after bias, penalties and mask, before temperature and
        top-k, top-p and min-p.
        """
        token, logprob, top = values.tolist()
        if not (math.isfinite(top) and math.isfinite(logprob)):
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        if top <= HIDDEN / 2:
            raise ValueError("generate: token_mask allows no token")
        return int(token), logprob

    def _number(self, name: str) -> Tensor:
        names = ("temperature", "repetition", "frequency", "presence", "top_p", "min_p")
        place = names.index(name)
        return self._held["numbers"][place : place + 1]

    def _adjusted(self, scores: Tensor, rules: Rules, mask: Tensor | None) -> Tensor:
        if rules.biased:
            scores = scores + self._held["bias"]
        if rules.penalized:
            p = self._number("repetition")
            turned = ops.where(scores < 0, scores * p, scores / p)
            scores = ops.where(self._held["seen"], turned, scores)
        if rules.counted:
            counts = self._held["counts"]
            used = (counts > 0).float()
            scores = scores - (counts * self._number("frequency") + used * self._number("presence"))
        return scores if mask is None else ops.where(mask, scores, HIDDEN)

    def _draw(self, scores: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
        """Tokens (rows, 1) int64, and the largest scores.

        All rows use the same draw: a point in the sum of the remaining weights. With top_k the
        weights are in descending order, else in the order of the vocabulary.
        """
        if rules.top_k:
            scores, order = scores.topk(rules.top_k, 1)
        top = scores[:, :1] if rules.top_k else scores.max(1, keepdim=True).values
        logs = (scores - top) / self._number("temperature")
        weights = logs.exp()  # the largest is 1
        stay = weights > 0
        if rules.top_p and rules.top_k:
            enough = weights.sum(1, keepdim=True) * self._number("top_p")
            stay = stay & (weights.cumsum(1) - weights < enough)
        elif rules.top_p:
            stay = stay & (logs >= self._nucleus(logs, weights))
        if rules.min_p:
            stay = stay & (weights >= self._number("min_p"))
        sums = ops.where(stay, weights, 0.0).cumsum(1)
        drawn = ops.rand(1, generator=self._random, device=self.device)
        # The first remaining token beyond the point; the last one if rounding puts the point
        # beyond all.
        count = scores.shape[1]
        place = ops.arange(count, dtype=float32, device=self.device)
        rank = ops.where(sums > drawn * sums[:, -1:], 2.0 * count - place, place + 1)
        chosen = ops.where(stay, rank, 0.0).argmax(1, keepdim=True)
        return order.gather(1, chosen) if rules.top_k else chosen, top

    def _nucleus(self, logs: Tensor, weights: Tensor) -> Tensor:
        """The least logarithm (rows, 1) of the smallest set of weights that sums to `top_p`.

        A CPU sorts. A GPU searches: it divides the range of logarithms repeatedly, until the rest
        is less than float32 can resolve in logits. Tokens that close to the last one are kept.
        """
        enough = weights.sum(1, keepdim=True) * self._number("top_p")
        if not self.device.backend.asynchronous:
            falling = logs.sort(1, descending=True).values
            probabilities = falling.exp()
            # Every logarithm is at most zero.
            return ops.where(probabilities.cumsum(1) - probabilities < enough, falling, 0.0).amin(
                1, keepdim=True
            )
        # Tokens below it sum to less than float32 resolves, even if they were the whole vocabulary.
        width = math.log(self.vocab) + 17
        bound = ops.full((1, 1), -width, device=self.device)
        parts = _PARTS if self.rows <= _FEW else 2
        inner = ops.arange(1, parts, dtype=float32, device=self.device)
        while width > 1e-6:
            width /= parts
            bounds = (bound + inner * width).unsqueeze(2)
            # (rows, parts, vocab) -> (rows, parts)
            probabilities = ops.where(logs.unsqueeze(1) >= bounds, weights.unsqueeze(1), 0.0).sum(2)
            bound = bound + (probabilities >= enough).float().sum(1, keepdim=True) * width
        return bound
