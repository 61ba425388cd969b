"""Mixture of attention heads (Zhang et al., 2022): queries and results by experts, keys shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.mlp import ExpertStack
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.routing import Router, RoutingSpec


@dataclass(frozen=True)
class AttentionExpertsSpec:
    """`chosen` of `count` experts ask for each token, each with a query for every key head."""

    width: int
    heads: int
    head_dim: int
    count: int
    chosen: int
    rotary: RotarySpec

    def __call__(self, layer: int) -> AttentionExperts:
        return AttentionExperts(self, layer)


class Mixture(nn.Module):
    """The experts: stacks that make queries and read results, and the router."""

    def __init__(self, spec: AttentionExpertsSpec) -> None:
        inside = spec.heads * spec.head_dim
        self.input_linear = ExpertStack(spec.count, inside, spec.width)
        self.output_linear = ExpertStack(spec.count, spec.width, inside)
        put(self, "router.layer", Router(spec.width, spec.count, spec.chosen, RoutingSpec()))
        self.bias = parameter(spec.width)

    def reset_parameters(self) -> None:
        """What is added to the result is zero."""
        init.zeros_(self.bias)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., width) -> weights and numbers of the chosen experts, (..., chosen)."""
        router: Any = self.get_submodule("router.layer")
        chosen: tuple[Tensor, Tensor] = router.choose(x)
        return chosen


class AttentionExperts(nn.Module):
    """Such attention in layer `layer`; JetMoE's `experts` are the `mixture` here."""

    def __init__(self, spec: AttentionExpertsSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.mixture = Mixture(spec)
        self.kv_proj = nn.Linear(spec.width, 2 * spec.heads * spec.head_dim, bias=False)

    @property
    def cache_spec(self) -> KeysAndValues:
        """The state that the cache keeps for this layer."""
        return KeysAndValues(self.spec.heads, self.spec.head_dim)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, (batch, length, _) = self.spec, x.shape
        cos, sin = context.angles[spec.rotary]
        shares, index = self.mixture.choose(x)
        each = x.unsqueeze(-2).expand(*index.shape, x.shape[-1])
        by_expert = batch, length, spec.chosen, spec.heads, spec.head_dim
        by_head = batch, length, spec.heads, spec.chosen, spec.head_dim
        # A key head is read by its queries of all chosen experts.
        q = self.mixture.input_linear(each, index).reshape(*by_expert).transpose(2, 3)
        q = q.reshape(batch, length, -1, spec.head_dim).transpose(1, 2)
        k, v = (
            y.reshape(batch, length, spec.heads, -1).transpose(1, 2)
            for y in self.kv_proj(x).chunk(2, -1)
        )
        q, k = (ops.rope(y, cos, sin, interleaved=spec.rotary.interleaved) for y in (q, k))
        offset: Tensor | int = 0
        if context.cache is not None:
            offset = context.offsets[self.layer]
            k, v = context.cache.write(self.layer, offset, k, v)
        y = ops.attention(q, k, v, causal=True, mask=context.mask, q_offset=offset)
        y = y.transpose(1, 2).reshape(*by_head).transpose(2, 3)
        y = self.mixture.output_linear(y.reshape(batch, length, spec.chosen, -1), index)
        out: Tensor = (y * shares.to(x.dtype).unsqueeze(-1)).sum(-2) + self.mixture.bias
        return out
