"""Sampling where the logits are: the rules of `sampling` in tensor ops, without reading logits.

Three numbers come back per token: its id, the logarithm of its probability, the largest score.
The token itself stays on the device as well, where the next step takes it from.
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
from rushlight.core.dtype import float32, int64
from rushlight.core.jit import jit
from rushlight.core.tensor import Tensor, from_numpy
from rushlight.models.sampling import Array, Options, checked

# The score of a token that the mask leaves out: finite, as WGSL may take infinity for anything.
HIDDEN = -1e30
# Parts of a step of the search for top_p, which takes room for each row and part: two with more
# rows than a few.
_PARTS, _FEW = 4, 8


class Rules(NamedTuple):
    """Which rules there are: what decides about the ops. Their numbers lie on the device."""

    drawn: bool = False
    biased: bool = False
    penalized: bool = False
    counted: bool = False
    top_k: int = 0
    top_p: bool = False
    min_p: bool = False


class DeviceSampler:
    """Chooses token after token in float32; what the rules need of the past stays on the device.

    rows: how many answers it chooses for at the same time, by the same options and draws: each
    gets what it would get alone. token: (rows, 1), what was chosen last for each. It serves one
    answer after the other: its tensors keep their memory, so that captured steps go on with them.
    """

    def __init__(self, vocab: int, device: Device, rows: int = 1) -> None:
        self.vocab, self.device, self.rows = vocab, device, rows
        self.token = ops.zeros(rows, 1, dtype=int64, device=device)
        self.rules = Rules()
        self.mask: Tensor | None = None  # which tokens are allowed
        self._random = Random(0)
        self._held: dict[str, Tensor] = {}
        self._captured = jit(partial(DeviceSampler.choose, weakref.proxy(self)))

    def begin(self, options: Options, *prompts: Sequence[int]) -> None:
        """Get ready for answers to `prompts`, one a row, by `options`.

        ValueError or TypeError for a bias or a mask that does not fit, see `sampling.checked`.
        """
        o, vocab = options, self.vocab
        checked(o, vocab, self.device)
        self._random.manual_seed(o.seed or 0)
        if o.logit_bias:
            bias = np.zeros(vocab, np.float32)
            bias[list(o.logit_bias)] = list(o.logit_bias.values())
            self._hold("bias", bias.clip(HIDDEN))
        penalized = o.repetition_penalty != 1
        if penalized:
            seen = np.zeros((self.rows, vocab), np.bool_)
            for row, prompt in zip(seen, prompts, strict=True):
                row[list(prompt)] = True
            self._hold("seen", seen)
        counted = bool(o.frequency_penalty or o.presence_penalty)
        if counted:
            self._hold("counts", np.zeros((self.rows, vocab), np.float32))
        numbers = (o.temperature, o.repetition_penalty, o.frequency_penalty, o.presence_penalty,
                   o.top_p, o.min_p)  # fmt: skip
        self._hold("numbers", np.array(numbers, np.float32))
        if o.token_mask is None or isinstance(o.token_mask, Tensor):
            self.mask = o.token_mask  # the caller's own: what it writes to it holds at once
        else:
            self.mask = self._hold("mask", np.asarray(o.token_mask))
        self.rules = Rules(
            o.temperature != 0, bool(o.logit_bias), penalized, counted,
            o.top_k if o.top_k < vocab else 0, o.top_p < 1, o.min_p > 0,
        )  # fmt: skip

    def _hold(self, name: str, values: Array) -> Tensor:
        """Keep values, in the memory that those of the last answer had."""
        new = from_numpy(values).to(self.device)
        if name in self._held:
            return self._held[name].copy_(new)
        # On cpu the array is the caller's.
        self._held[name] = new.clone()
        return self._held[name]

    def put(self, token: int) -> None:
        """Say which token was last in every row, where it was not chosen here."""
        self.token.copy_(from_numpy(np.array([[token]], np.int64)).to(self.device))

    def pick(self, logits: Tensor) -> Tensor:
        """Choose by logits (rows, vocab): (rows, 3) float32, whose rows `taken` is given, read."""
        return self._captured(logits, self.rules, self.mask)

    def choose(self, logits: Tensor, rules: Rules, mask: Tensor | None) -> Tensor:
        """`pick`, as a part of what is captured."""
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
            made = ops.arange(self.vocab, dtype=float32, device=self.device) == named
            if rules.penalized:
                seen = self._held["seen"]
                seen.copy_(seen | made)
            if rules.counted:
                self._held["counts"].add_(made.float())
        self.token.copy_(token)
        logprob = (chosen - top) - (scores - top).exp().sum(1, keepdim=True).log()
        return ops.cat([named, logprob, top], 1)

    def taken(self, values: Array) -> tuple[int, float]:
        """The token and the logarithm of its probability from what `pick` gave a row, read.

        The probability is the model's own: before temperature and cuts, after bias and penalties,
        among the tokens that the mask allows.
        """
        token, logprob, top = values.tolist()
        if not (math.isfinite(top) and math.isfinite(logprob)):
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        if top <= HIDDEN / 2:
            raise ValueError("generate: token_mask allows no token")
        return int(token), logprob

    def _number(self, name: str) -> Tensor:
        names = ("temperature", "repetition", "frequency", "presence", "top_p", "min_p")
        at = names.index(name)
        return self._held["numbers"][at : at + 1]

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

        Where one draw, the same for all rows, falls among the weights that are left: in falling
        order of the `top_k` largest, else in the order of the vocabulary, which is not sorted.
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
        # The first that stays and is beyond the point; the last that stays, should rounding put
        # the point beyond all.
        count = scores.shape[1]
        place = ops.arange(count, dtype=float32, device=self.device)
        rank = ops.where(sums > drawn * sums[:, -1:], 2.0 * count - place, place + 1)
        chosen = ops.where(stay, rank, 0.0).argmax(1, keepdim=True)
        return order.gather(1, chosen) if rules.top_k else chosen, top

    def _nucleus(self, logs: Tensor, weights: Tensor) -> Tensor:
        """The logarithm (rows, 1) from which on weights are in the smallest set that holds `top_p`.

        A processor sorts. Elsewhere it is found by parting the range of logarithms again and again,
        until what is left is less than float32 tells apart in logits: tokens that near to the last
        one stay with it.
        """
        enough = weights.sum(1, keepdim=True) * self._number("top_p")
        if self.device.type == "cpu":
            falling = logs.sort(1, descending=True).values
            held = falling.exp()
            # No logarithm is above zero.
            return ops.where(held.cumsum(1) - held < enough, falling, 0.0).amin(1, keepdim=True)
        # Tokens below it hold less than float32 can leave out, even were they the whole vocabulary.
        width = math.log(self.vocab) + 17
        at = ops.full((1, 1), -width, device=self.device)
        parts = _PARTS if self.rows <= _FEW else 2
        inner = ops.arange(1, parts, dtype=float32, device=self.device)
        while width > 1e-6:
            width /= parts
            bounds = (at + inner * width).unsqueeze(2)
            # (rows, parts, vocab) -> (rows, parts)
            held = ops.where(logs.unsqueeze(1) >= bounds, weights.unsqueeze(1), 0.0).sum(2)
            at = at + (held >= enough).float().sum(1, keepdim=True) * width
        return at
