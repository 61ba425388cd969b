"""RWKV 4 (Peng et al., 2023): each channel's average of values, whose weights decay.

Weights are exponentials of keys, so that a state holds its largest exponent beside the sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.functional.creation import ones_like
from rushlight.core.functional.joining import split
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.rwkv import token_shift
from rushlight.models.layers.blocks.state_space import masked, states_of

LEAST = -1e38  # the exponent of no weight at all
CHUNK = 64  # tokens that are summed by doubling
Sums = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class RWKV4Spec:
    """A whole layer: `channels` averages, and a feed-forward part `inner` wide.

    halved: the reference halves what it adds up after so many layers, which norms undo but for
    their epsilon.
    """

    width: int
    channels: int
    inner: int
    eps: float = 1e-5
    halved: int = 0

    def __call__(self, layer: int) -> RWKV4Layer:
        """The block of a layer."""
        return RWKV4Layer(self, layer)

    def eps_at(self, layer: int, eps: float) -> float:
        """What a norm's epsilon is for sums that are not halved."""
        return eps * (4.0 ** (layer // self.halved) if self.halved > 0 else 1.0)


class RWKV4Layer(nn.Module):
    """Time mixing and channel mixing, each with a norm before and a residual."""

    def __init__(self, spec: RWKV4Spec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        eps = spec.eps_at(layer, spec.eps)
        if layer == 0:
            self.pre_ln = nn.LayerNorm(spec.width, eps=eps)
        self.ln1 = nn.LayerNorm(spec.width, eps=eps)
        self.ln2 = nn.LayerNorm(spec.width, eps=eps)
        self.attention = TimeMix(spec)
        self.feed_forward = ChannelMix(spec)

    @property
    def cache_spec(self) -> State:
        """The token before, for either half; both sums, and their largest exponent."""
        width, channels = self.spec.width, self.spec.channels
        return State(((1, width), *((channels,),) * 3, (1, width)))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same, with the residuals."""
        before, top, bottom, most, later = states_of(context, self.layer, 5)
        x = self.pre_ln(x) if self.layer == 0 else x
        shifted, last = token_shift(self.ln1(x), context, before)
        known = None if top is None or bottom is None or most is None else (top, bottom, most)
        y, sums = self.attention(*shifted, context, known)
        x = x + y
        shifted, later = token_shift(self.ln2(x), context, later)
        if context.cache is not None:
            context.cache.set_state(self.layer, last.float(), *sums, later.float())
        result: Tensor = x + self.feed_forward(*shifted)
        return result


class Mixed(nn.Module):
    """Mixtures of a token and the one before it, by channels."""

    key: nn.Linear
    receptance: nn.Linear

    def mixed(self, name: str, x: Tensor, more: Tensor) -> Tensor:
        """What the projection `name` reads; more: what the token before has more than x."""
        share: Tensor = getattr(self, f"time_mix_{name}")
        return x + more * (1 - share)


class TimeMix(Mixed):
    """The averages, and a gate."""

    def __init__(self, spec: RWKV4Spec) -> None:
        self.time_decay, self.time_first = parameter(spec.channels), parameter(spec.channels)
        for name in ("key", "value", "receptance"):
            setattr(self, f"time_mix_{name}", parameter(1, 1, spec.width))
            setattr(self, name, nn.Linear(spec.width, spec.channels, bias=False))
        self.output = nn.Linear(spec.channels, spec.width, bias=False)

    def reset_parameters(self) -> None:
        """Decays of 1, no bonus, and no mixing."""
        init.zeros_(self.time_decay)
        init.zeros_(self.time_first)
        for name in ("key", "value", "receptance"):
            init.ones_(getattr(self, f"time_mix_{name}"))

    def forward(
        self, x: Tensor, more: Tensor, context: AttentionContext, known: Sums | None
    ) -> tuple[Tensor, Sums]:
        """(batch, length, width) twice -> the same once, and the sums after the last token."""
        k, v, r = (
            getattr(self, name)(self.mixed(name, x, more))
            for name in ("key", "value", "receptance")
        )
        k, v = k.float(), v.float()
        decay = (-self.time_decay.float().exp()).expand(k.shape)
        if (real := context.real(k.shape[1])) is not None:
            # Padding has no weight, and lets nothing decay.
            decay = masked(decay, context)
            k = ops.where(real.unsqueeze(-1), k, LEAST)
        average, sums = averages(k, v, decay, self.time_first.float(), known)
        out: Tensor = self.output(average.to(x.dtype) * r.sigmoid())
        return out, sums


class ChannelMix(Mixed):
    """A feed-forward part with a gate."""

    def __init__(self, spec: RWKV4Spec) -> None:
        for name, size in (("key", spec.inner), ("receptance", spec.width)):
            setattr(self, f"time_mix_{name}", parameter(1, 1, spec.width))
            setattr(self, name, nn.Linear(spec.width, size, bias=False))
        self.value = nn.Linear(spec.inner, spec.width, bias=False)

    def reset_parameters(self) -> None:
        """No mixing."""
        for name in ("key", "receptance"):
            init.ones_(getattr(self, f"time_mix_{name}"))

    def forward(self, x: Tensor, more: Tensor) -> Tensor:
        """(batch, length, width) twice -> the same once."""
        y = self.value(self.key(self.mixed("key", x, more)).relu().square())
        out: Tensor = self.receptance(self.mixed("receptance", x, more)).sigmoid() * y
        return out


def averages(
    k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor, known: Sums | None
) -> tuple[Tensor, Sums]:
    """The average of values at each token, and the sums after the last one.

    The weight of a token is e^k, times e^decay for each later token; at its own it is e^(bonus +
    k). k, v and decay: (batch, length, channels); bonus: (channels,); known: sums of weighted
    values and of weights, divided by e^exponent, and the exponent, (batch, channels) each.
    """
    if known is None:
        nothing = ops.zeros(k.shape[0], k.shape[2], dtype=k.dtype, device=k.device)
        sums = nothing, nothing, nothing + LEAST
    else:  # the exponent of an empty state is none
        sums = known[0], known[1], ops.where(known[1] > 0, known[2], LEAST)
    outputs = []
    for k_, v_, decay_ in zip(*(split(t, CHUNK, 1) for t in (k, v, decay)), strict=True):
        first = sums[0].unsqueeze(1), sums[1].unsqueeze(1), sums[2].unsqueeze(1)
        one = ones_like(v_)
        upto = _doubled(decay_, v_, one, k_)
        after = _joined(decay_.cumsum(1), first, upto)
        before = [ops.cat([t, u[:, :-1]], 1) for t, u in zip(first, after, strict=True)]
        # Before a token nothing of its own decay has happened.
        top, bottom, _ = _joined(one * 0, (before[0], before[1], before[2]), (v_, one, k_ + bonus))
        outputs.append(top / bottom)
        sums = after[0][:, -1], after[1][:, -1], after[2][:, -1]
    return (outputs[0] if len(outputs) == 1 else ops.cat(outputs, 1)), sums


def _joined(decay: Tensor, first: Sums, second: Sums) -> Sums:
    """Sums of tokens and of later ones, over which the former decay by e^decay."""
    early = first[2] + decay
    most = ops.maximum(early, second[2])
    a, b = (early - most).exp(), (second[2] - most).exp()
    return first[0] * a + second[0] * b, first[1] * a + second[1] * b, most


def _doubled(decay: Tensor, top: Tensor, bottom: Tensor, most: Tensor) -> Sums:
    """The sums of all tokens up to each, by doubling (Hillis and Steele, 1986)."""
    step = 1
    while step < top.shape[1]:
        kept = top[:, :step], bottom[:, :step], most[:, :step]
        later = top[:, step:], bottom[:, step:], most[:, step:]
        early = top[:, :-step], bottom[:, :-step], most[:, :-step]
        joined = _joined(decay[:, step:], early, later)
        top, bottom, most = (ops.cat([a, b], 1) for a, b in zip(kept, joined, strict=True))
        decay = ops.cat([decay[:, :step], decay[:, step:] + decay[:, :-step]], 1)
        step *= 2
    return top, bottom, most
