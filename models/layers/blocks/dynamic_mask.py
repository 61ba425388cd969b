"""Attention by a dynamic mask (Shi et al., 2025) in layers with weighted residuals: Doge."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.functional.network.activations import softplus
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.mlp import MLPSpec, make_mlp
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.rotary import RotarySpec


@dataclass(frozen=True)
class WeightedLayerSpec:
    """A whole layer `width` features wide, of dynamically masked attention and an MLP.

    window: the number of tokens that a token attends to, itself included. bias: of all projections
    of attention.
    """

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary: RotarySpec
    norm: NormSpec
    mlp: MLPSpec
    window: int | None = None
    bias: bool = False

    def __call__(self, layer: int) -> WeightedLayer:
        return WeightedLayer(self, layer)


class DynamicAttention(nn.Module):
    """Attention whose scores gain a number of each key, made of the key's values."""

    def __init__(self, spec: WeightedLayerSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        q, kv = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        self.q_proj = nn.Linear(spec.width, q, bias=spec.bias)
        self.k_proj = nn.Linear(spec.width, kv, bias=spec.bias)
        self.v_proj = nn.Linear(spec.width, kv, bias=spec.bias)
        self.A = parameter(spec.kv_heads)
        self.dt_proj = nn.Linear(kv, spec.kv_heads, bias=spec.bias)
        self.o_proj = nn.Linear(q, spec.width, bias=spec.bias)
        self.q_norm = make_norm(spec.head_dim, spec.norm)
        self.k_norm = make_norm(spec.head_dim, spec.norm)

    def reset_parameters(self) -> None:
        """Keys gain the same number."""
        init.zeros_(self.A)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, (batch, length, _) = self.spec, x.shape
        cos, sin = context.angles[spec.rotary]

        def split(y: Tensor) -> Tensor:  # (batch, heads, length, head_dim)
            return y.reshape(batch, length, -1, spec.head_dim).transpose(1, 2)

        q = ops.rope(self.q_norm(split(self.q_proj(x))), cos, sin)
        k = ops.rope(self.k_norm(split(self.k_proj(x))), cos, sin)
        v = split(self.v_proj(x))
        offset: Tensor | int = 0
        if context.cache is not None:
            offset = context.offsets[self.layer]
            k, v = context.cache.write(self.layer, offset, k, v)
        y = ops.attention(
            q,
            k,
            v,
            causal=True,
            mask=context.mask,
            q_offset=offset,
            window=spec.window,
            bias=self._gains(v.to(x.dtype)),
        )
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))
        return out

    def _gains(self, v: Tensor) -> Tensor:
        # (batch, kv_heads, keys, head_dim) -> (batch, heads, 1, keys)
        spec, (batch, heads, keys, _) = self.spec, v.shape
        rates = softplus(self.dt_proj(v.transpose(1, 2).reshape(batch, keys, -1)))
        gains = (self.A * rates).exp().transpose(1, 2).reshape(batch, heads, 1, keys)
        groups = spec.heads // heads
        return gains.expand(batch, heads, groups, keys).reshape(batch, spec.heads, 1, keys)


class WeightedLayer(nn.Module):
    """A layer whose residuals have a weight of each feature."""

    def __init__(self, spec: WeightedLayerSpec, layer: int) -> None:
        self.spec = spec
        self.input_layernorm = make_norm(spec.width, spec.norm)
        self.self_attn = DynamicAttention(spec, layer)
        self.input_residual = parameter(spec.width)
        self.post_attention_layernorm = make_norm(spec.width, spec.norm)
        self.mlp = make_mlp(spec.width, spec.mlp)
        self.post_attention_residual = parameter(spec.width)

    def reset_parameters(self) -> None:
        """The weights are one."""
        init.ones_(self.input_residual)
        init.ones_(self.post_attention_residual)

    @property
    def cache_spec(self) -> KeysAndValues:
        """The state that the cache keeps for this layer."""
        return KeysAndValues(self.spec.kv_heads, self.spec.head_dim, window=self.spec.window)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        x = self.input_residual * x + self.self_attn(self.input_layernorm(x), context)
        more = self.mlp(self.post_attention_layernorm(x))
        out: Tensor = self.post_attention_residual * x + more
        return out
