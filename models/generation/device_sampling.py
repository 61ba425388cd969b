"""Sampling on the logits' device: the usual rules of `sampling` in tensor ops.

Three numbers are read back per token: its id, its log-probability and the largest score; and two
for each of the likeliest tokens that are told. The token also stays on the device as the input of
the next step. For the other rules the logits are read back, and `samplers` choose on the host.
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
from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.core.jit.function import jit
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.samplers.host import HostSampler
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
    logprobs: int = 0
    host: bool = False


class DeviceSampler:
    """Chooses one token after another in float32; its state stays on the device.

    rows: the number of answers that are sampled together, with the same options and draws. Each
    answer is what it would be alone. token: (rows, 1), the last choice for each row. A sampler is
    reused for later answers: its tensors keep their memory, so that captured steps stay valid.
    """

    def __init__(
        self, vocab: int, device: Device, rows: int = 1, tokenizer: Tokenizer | None = None
    ) -> None:
        self.vocab, self.device, self.rows = vocab, device, rows
        self.tokenizer = tokenizer
        self.hosts: list[HostSampler] = []  # of each row, where the host chooses
        self.token = ops.zeros(rows, 1, dtype=int64, device=device)
        self.rules = Rules()
        self.mask: Tensor | None = None  # true for allowed tokens
        self._random = Random(0)
        self._held: dict[str, Tensor] = {}
        self._captured = jit(partial(DeviceSampler.choose, weakref.proxy(self)))

    def begin(self, options: Options, *prompts: Sequence[int], host: bool = False) -> None:
        """Begin answers to `prompts`, one per row, with `options`.

        host: `pick` returns logits in any case, which the caller chooses by.

        ValueError or TypeError for a bias or a mask that does not fit, see `sampling.checked`.
        """
        o, vocab = options, self.vocab
        checked(o, vocab, self.device)
        self.hosts = []
        if o.on_host:
            self.hosts = [HostSampler(o, prompt, vocab, self.tokenizer) for prompt in prompts]
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
            min(o.logprobs, vocab),
        )
        if self.hosts or host:
            self.rules = Rules(host=True)

    def hold(self, name: str, values: Array) -> Tensor:
        """Store values in the memory that the last answer's values had."""
        new = from_numpy(values).to(self.device)
        if name in self._held:
            return self._held[name].copy_(new)
        # On cpu the array belongs to the caller.
        self._held[name] = new.clone()
        return self._held[name]

    def set_token(self, *tokens: int) -> None:
        """Set the last token of each row, or of all, if the sampler did not choose it."""
        self.token.copy_(from_numpy(np.array(tokens, np.int64)[:, None]).to(self.device))

    def settled(self, values: Array) -> Array:
        """The picks (rows, 3 + 2 * logprobs) of what was read back: where the host chooses, logits.

        FloatingPointError for logits that are not finite, ValueError if every token is forbidden.
        """
        if not self.hosts:
            return values
        chosen = [host.choose(row) for host, row in zip(self.hosts, values, strict=True)]
        self.set_token(*(choice.token for choice in chosen))
        return np.array(
            [
                (c.token, c.logprob, 0.0, *(i for i, _ in c.top), *(log for _, log in c.top))
                for c in chosen
            ]
        )

    def pick(self, logits: Tensor) -> Tensor:
        """Choose by logits (rows, vocab): (rows, 3 + 2 * logprobs) float32, see `token_of`.

        Where the host chooses they are the logits, for `settled`.
        """
        return self._captured(logits, self.rules, self.mask)

    def choose(self, logits: Tensor, rules: Rules, mask: Tensor | None) -> Tensor:
        """`pick` as a part of a captured step."""
        scores = self._adjusted(logits.float(), rules, mask)
        if rules.host:
            return scores
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
        total = (scores - top).exp().sum(1, keepdim=True).log()
        picked_values = [named, (chosen - top) - total, top]
        if rules.logprobs:
            likely, ids = scores.topk(rules.logprobs, 1)
            picked_values += [ids.float(), (likely - top) - total]
        return ops.cat(picked_values, 1)

    def token_of(self, values: Array) -> tuple[int, float]:
        """The token and its log-probability from a row of `pick`, as read back.

        The probability is the model's: after bias, penalties and mask, before temperature and
        what narrows.
        """
        token, logprob, top = values[:3].tolist()
        if not (math.isfinite(top) and math.isfinite(logprob)):
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        if top <= HIDDEN / 2:
            raise ValueError("generate: token_mask allows no token")
        return int(token), logprob

    def likeliest(self, values: Array) -> tuple[tuple[int, float], ...]:
        """The likeliest tokens with their log-probabilities, of a row of `pick` as read back."""
        ids, logs = np.split(values[3:], 2)
        return tuple((int(i), float(log)) for i, log in zip(ids, logs, strict=True))

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
        logs = scores - top
        weights = logs.exp()  # the largest is 1
        stay = logs > HIDDEN / 2
        if rules.top_p and rules.top_k:
            enough = weights.sum(1, keepdim=True) * self._number("top_p")
            stay = stay & (weights.cumsum(1) - weights < enough)
        elif rules.top_p:
            stay = stay & (logs >= self._nucleus(logs, weights))
        if rules.min_p:
            stay = stay & (weights >= self._number("min_p"))
        # What is left is drawn from at the temperature.
        warm = (logs / self._number("temperature")).exp()
        stay = stay & (warm > 0)
        sums = ops.where(stay, warm, 0.0).cumsum(1)
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
