"""MiniMax-01's layers (MiniMax, 2025): lightning attention, and residuals of normalised inputs.

Lightning attention is linear: a head's state decays by a rate of its own, without a softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.functional.network.linear_attention import wkv
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.cache_spec import CacheSpec, State
from rushlight.models.layers.attention import Attention, AttentionContext, AttentionSpec
from rushlight.models.layers.blocks.state_space import masked, states_of
from rushlight.models.layers.mlp import ACTIVATIONS, ExpertsSpec, make_mlp
from rushlight.models.layers.naming import put


@dataclass(frozen=True)
class LightningSpec:
    """`heads` heads of `head` features; a later one of `layers` layers decays less."""

    width: int
    heads: int
    head: int
    layers: int
    activation: str = "silu"

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))


class Lightning(nn.Module):
    """Activated q, k and v, sums that decay, a norm and a gate."""

    def __init__(self, spec: LightningSpec, layer: int) -> None:
        self.spec, self.layer, inner = spec, layer, spec.heads * spec.head
        self.norm = nn.RMSNorm(inner, eps=1e-6)
        self.qkv_proj = nn.Linear(spec.width, 3 * inner, bias=False)
        self.out_proj = nn.Linear(inner, spec.width, bias=False)
        self.output_gate = nn.Linear(spec.width, inner, bias=False)

    @property
    def cache_spec(self) -> State:
        """The sum of each head."""
        spec = self.spec
        return State(((spec.heads, spec.head, spec.head),))

    @property
    def rates(self) -> list[float]:
        """How much of a logarithm each head's sum decays by at a token."""
        spec = self.spec
        share = 1 - self.layer / (spec.layers - 1 + 1e-5) + 1e-5
        return [share * math.pow(2, -8 * (i + 1) / spec.heads) for i in range(spec.heads)]

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, (batch, length, _) = self.spec, x.shape
        (state,) = states_of(context, self.layer, 1)
        # Padding neither writes nor decays.
        both = masked(ACTIVATIONS[spec.activation](self.qkv_proj(x)), context)
        q, k, v = both.reshape(batch, length, spec.heads, 3 * spec.head).chunk(3, -1)
        rates = tensor(self.rates, device=x.device)
        decay = masked((-rates).expand(batch, length, spec.heads), context)
        q, decay, k, v = (y.transpose(1, 2) for y in (q, decay.unsqueeze(-1), k, v))
        out, state = wkv(q, decay, k, v, state=state)
        if context.cache is not None:
            context.cache.set_state(self.layer, state)
        y = self.norm(out.transpose(1, 2).reshape(batch, length, -1).to(x.dtype))
        result: Tensor = self.out_proj(y * self.output_gate(x).sigmoid())
        return result


@dataclass(frozen=True)
class NormedResidualSpec:
    """A whole layer: what a norm gives is read, and is the residual too.

    attention_scales: of the residual and of attention's result; mlp_scales: of those of experts.
    """

    width: int
    attention: AttentionSpec | LightningSpec
    mlp: ExpertsSpec
    attention_scales: tuple[float, float]
    mlp_scales: tuple[float, float]
    mlp_name: str
    eps: float

    def __call__(self, layer: int) -> NormedResidual:
        """The layer of this number."""
        return NormedResidual(self, layer)


class NormedResidual(nn.Module):
    """Attention and experts, each after a norm whose result is added to theirs."""

    def __init__(self, spec: NormedResidualSpec, layer: int) -> None:
        self.spec, attention = spec, spec.attention
        self.input_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)
        self.self_attn = (
            Lightning(attention, layer)
            if isinstance(attention, LightningSpec)
            else Attention(spec.width, attention, layer)
        )
        self.post_attention_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)
        put(self, spec.mlp_name, make_mlp(spec.width, spec.mlp))

    @property
    def cache_spec(self) -> CacheSpec:
        """That of attention."""
        return self.self_attn.cache_spec

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec = self.spec
        x = self.input_layernorm(x)
        x = _sum(x, self.self_attn(x, context), spec.attention_scales)
        x = self.post_attention_layernorm(x)
        return _sum(x, self.get_submodule(spec.mlp_name)(x), spec.mlp_scales)


def _sum(x: Tensor, y: Tensor, scales: tuple[float, float]) -> Tensor:
    return x + y if scales == (1, 1) else x * scales[0] + y * scales[1]
