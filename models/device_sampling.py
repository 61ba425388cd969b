"""Sampling where the logits are: the rules of `sampling` in tensor ops, without reading logits.

Three numbers come back per token: its id, the logarithm of its probability, the largest score.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from rushlight.core import ops
from rushlight.core.backends import Device
from rushlight.core.backends import Generator as Random
from rushlight.core.convert import tensor
from rushlight.core.dtype import bool_
from rushlight.core.jit import jit
from rushlight.core.tensor import Tensor
from rushlight.models.sampling import Array, Options, checked_bias


def _facts(scores: Tensor, token: Tensor) -> Tensor:
    """(3,): the token, the logarithm of its probability, the largest score."""
    top = scores.amax(0, keepdim=True)
    shifted = scores - top
    log_total = shifted.exp().sum(0, keepdim=True).log()
    # float32 holds every id below 2**24 exactly.
    return ops.cat([token.float(), shifted.gather(0, token) - log_total, top])


@jit
def _greedy(logits: Tensor) -> Tensor:
    scores = logits.float()
    return _facts(scores, scores.argmax(0, keepdim=True))


class DeviceSampler:
    """`Sampler` on a device, in float32; what the penalties need of the past stays there, too."""

    def __init__(self, options: Options, vocab: int, prompt: Sequence[int], device: Device) -> None:
        self.options, self.device = options, device
        self.random = Random(options.seed or 0)
        checked_bias(options, vocab)
        self.bias: Tensor | None = None
        if options.logit_bias:
            bias = [0.0] * vocab
            for token, value in options.logit_bias.items():
                bias[token] = float(value)
            self.bias = tensor(bias, device=device)
        self.seen: Tensor | None = None
        if options.repetition_penalty != 1:
            seen = [False] * vocab
            for token in prompt:
                seen[token] = True
            self.seen = tensor(seen, device=device)
        self.counts: Tensor | None = None
        if options.frequency_penalty or options.presence_penalty:
            self.counts = ops.zeros(vocab, device=device)
        self._captured = jit(partial(DeviceSampler._chosen, weakref.proxy(self)))

    def pick(self, logits: Tensor) -> Tensor:
        """Choose by logits (vocab,): (3,) float32, to be read and given to `taken`."""
        return (self.plain or self._captured)(logits)

    def _chosen(self, logits: Tensor) -> Tensor:
        scores = self._adjusted(logits.float())
        drawn = self.options.temperature != 0
        token = self._draw(scores) if drawn else scores.argmax(0, keepdim=True)
        if self.seen is not None:
            self.seen.copy_(self.seen.scatter(0, token, True))
        if self.counts is not None:
            one = ops.ones(1, device=self.device)
            self.counts.copy_(self.counts.index_add(0, token, one))
        return _facts(scores, token)

    @property
    def plain(self) -> Callable[[Tensor], Tensor] | None:
        """`pick` as a function of the logits alone: for the likeliest token, of scores as given."""
        changed = (self.bias, self.seen, self.counts)
        unchanged = self.options.temperature == 0 and all(x is None for x in changed)
        return _greedy if unchanged else None

    def taken(self, values: Array) -> tuple[int, float]:
        """The token and the logarithm of its probability from what `pick` gave, read."""
        token, logprob, top = values.tolist()
        if not math.isfinite(top):
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        return int(token), logprob

    def _adjusted(self, scores: Tensor) -> Tensor:
        o = self.options
        if self.bias is not None:
            scores = scores + self.bias
        if self.seen is not None:
            p = o.repetition_penalty
            scores = ops.where(self.seen, ops.where(scores < 0, scores * p, scores / p), scores)
        if self.counts is not None:
            used = (self.counts > 0).float()
            scores = scores - (self.counts * o.frequency_penalty + used * o.presence_penalty)
        return scores

    def _draw(self, scores: Tensor) -> Tensor:
        """A token (1,) int64: the weights in falling order, cut, then the place of one draw."""
        o = self.options
        if 0 < o.top_k < scores.shape[0]:
            values, order = scores.topk(o.top_k, 0)
        else:
            values, order = scores.sort(0, descending=True)
        weights = ((values - values[:1]) / o.temperature).exp()
        weights = weights / weights.sum(0, keepdim=True)
        stay = ops.ones(weights.shape, dtype=bool_, device=self.device)
        if o.top_p < 1:
            stay = weights.cumsum(0) - weights < o.top_p
        if o.min_p > 0:
            stay = stay & (weights >= weights[:1] * o.min_p)
        weights = ops.where(stay, weights, 0.0)
        drawn = ops.rand(1, generator=self.random, device=self.device)
        point = drawn * weights.sum(0, keepdim=True)
        place = (weights.cumsum(0) <= point).long().sum(0, keepdim=True)
        last = stay.long().sum(0, keepdim=True) - 1
        return order.gather(0, ops.minimum(place, last))
