"""Differential attention (Ye et al., 2024): one map of attention is subtracted from another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.positions.rotary import RotarySpec


@dataclass(frozen=True)
class DifferentialSpec:
    """Differential attention over `width` features.

    The second half of `heads` is subtracted from the first. Both halves of `kv_heads` have the
    values of each key together. eps: of the norm of each pair of heads, which has no weight.
    """

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary: RotarySpec
    eps: float
    bias: bool = False

    def __post_init__(self) -> None:
        if self.kv_heads < 2 or self.kv_heads % 2 or self.heads % self.kv_heads:
            raise FormatError(
                f"config.json: num_key_value_heads {self.kv_heads} is not an even divisor of "
                f"num_attention_heads {self.heads}"
            )

    def __call__(self, layer: int) -> DifferentialAttention:
        return DifferentialAttention(self, layer)


class DifferentialAttention(nn.Module):
    """Differential attention of layer `layer`; the names are the checkpoint's."""

    def __init__(self, spec: DifferentialSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.least = 0.8 - 0.6 * math.exp(-0.3 * layer)
        q, kv = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        self.q_proj = nn.Linear(spec.width, q, bias=spec.bias)
        self.k_proj = nn.Linear(spec.width, kv, bias=spec.bias)
        self.v_proj = nn.Linear(spec.width, kv, bias=spec.bias)
        self.o_proj = nn.Linear(q, spec.width, bias=spec.bias)
        self.lambda_q1, self.lambda_k1 = parameter(spec.head_dim), parameter(spec.head_dim)
        self.lambda_q2, self.lambda_k2 = parameter(spec.head_dim), parameter(spec.head_dim)

    @property
    def cache_spec(self) -> KeysAndValues:
        """The state that the cache keeps for this layer."""
        return KeysAndValues(self.spec.kv_heads, self.spec.head_dim)

    def reset_parameters(self) -> None:
        """Normal numbers, small as in the paper."""
        for part in (self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2):
            init.normal_(part, std=0.1)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, (batch, length, _) = self.spec, x.shape
        cos, sin = context.angles[spec.rotary]

        def split(y: Tensor) -> Tensor:  # (batch, heads, length, head_dim)
            return y.reshape(batch, length, -1, spec.head_dim).transpose(1, 2)

        q = ops.rope(split(self.q_proj(x)), cos, sin)
        k, v = ops.rope(split(self.k_proj(x)), cos, sin), split(self.v_proj(x))
        offset: Tensor | int = 0
        if context.cache is not None:
            offset = context.offsets[self.layer]
            k, v = context.cache.write(self.layer, offset, k, v)
        # The values of both halves side by side, for the keys of either.
        half = spec.kv_heads // 2
        wide = ops.cat((v[:, :half], v[:, half:]), -1)
        y = ops.attention(
            q,
            k,
            ops.cat((wide, wide), 1),
            causal=True,
            mask=context.mask,
            q_offset=offset,
        )
        share = (self.lambda_q1 * self.lambda_k1).float().sum().exp()
        share = share - (self.lambda_q2 * self.lambda_k2).float().sum().exp() + self.least
        first, second = y[:, : spec.heads // 2], y[:, spec.heads // 2 :]
        y = first - second * share.to(y.dtype)
        y = ops.rms_norm(y, (2 * spec.head_dim,), None, spec.eps) * (1 - self.least)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))
        return out
