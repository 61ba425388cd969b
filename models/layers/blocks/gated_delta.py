"""Gated delta layers in place of attention (Yang et al., 2024), as in Qwen3-Next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import softplus
from rushlight.core.functional.network.linear_attention import gated_delta_rule
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.blocks.state_space import CausalConv, masked, states_of
from rushlight.models.layers.building import LINEAR, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec


@dataclass(frozen=True)
class GatedDeltaSpec:
    """A key head serves several value heads; `kernel` tokens are convolved before the rule.

    split: q, k and v of all heads are one matrix, and the gates another, as in GGUF; else one
    matrix has the four parts of each key head. apart: writing rates and decays are two matrices.
    tiled: value heads i, i + key_heads, ... read key head i, as in GGUF; else neighbours do. whole:
    all of them are one matrix, and the norm has another name, as in Lara.
    """

    width: int
    key_heads: int
    value_heads: int
    keys: int
    values: int
    kernel: int
    activation: str = "silu"
    eps: float = 1e-6
    split: bool = False
    apart: bool = False
    tiled: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))
        if self.key_heads < 1 or self.value_heads < 1 or self.value_heads % self.key_heads:
            raise FormatError(
                f"config.json: linear_num_value_heads {self.value_heads} is not a multiple of "
                f"linear_num_key_heads {self.key_heads}"
            )

    def __call__(self, layer: int) -> GatedDelta:
        """The block of a layer."""
        return GatedDelta(self, layer)


class GatedDelta(nn.Module):
    """Convolved q, k and v, the gated delta rule, and a norm with a gate."""

    def __init__(self, spec: GatedDeltaSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.key_dim, self.value_dim = spec.key_heads * spec.keys, spec.value_heads * spec.values
        self.channels = 2 * self.key_dim + self.value_dim
        if spec.whole:
            rows = self.channels + self.value_dim + 2 * spec.value_heads
            self.in_proj = nn.Linear(spec.width, rows, bias=False)
        elif spec.split:
            self.in_proj_qkv = nn.Linear(spec.width, self.channels, bias=False)
            self.in_proj_z = nn.Linear(spec.width, self.value_dim, bias=False)
        else:
            self.in_proj_qkvz = nn.Linear(spec.width, self.channels + self.value_dim, bias=False)
        if spec.whole:
            pass
        elif spec.apart:
            self.in_proj_b = nn.Linear(spec.width, spec.value_heads, bias=False)
            self.in_proj_a = nn.Linear(spec.width, spec.value_heads, bias=False)
        else:
            self.in_proj_ba = nn.Linear(spec.width, 2 * spec.value_heads, bias=False)
        self.conv1d = CausalConv(self.channels, spec.kernel, bias=False)
        self.A_log, self.dt_bias = parameter(spec.value_heads), parameter(spec.value_heads)
        self.last = "out_norm" if spec.whole else "norm"
        setattr(self, self.last, nn.RMSNorm(spec.values, eps=spec.eps))
        self.out_proj = nn.Linear(self.value_dim, spec.width, bias=False)

    def reset_parameters(self) -> None:
        """Rates of 1, time steps' biases of 1."""
        init.zeros_(self.A_log)
        init.ones_(self.dt_bias)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolution, and the state of the rule."""
        spec = self.spec
        return State(((spec.kernel - 1, self.channels), (spec.value_heads, spec.keys, spec.values)))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, cache = self.spec, context.cache
        batch, length, _ = x.shape
        group = spec.value_heads // spec.key_heads
        rows = (batch, length, spec.key_heads, -1)
        if spec.whole:
            sizes = [self.channels, self.value_dim, spec.value_heads, spec.value_heads]
            mixed, z, *gates = self.in_proj(x).split(sizes, -1)
            b, a = (y.float() for y in gates)
        elif spec.split:
            mixed, z = self.in_proj_qkv(x), self.in_proj_z(x)
        else:
            wide = group * spec.values
            parts = (
                self.in_proj_qkvz(x).reshape(*rows).split([spec.keys, spec.keys, wide, wide], -1)
            )
            q, k, v, z = (y.reshape(batch, length, -1) for y in parts)
            mixed = ops.cat([q, k, v], -1)
        if spec.whole:
            pass
        elif spec.apart:
            b, a = self.in_proj_b(x).float(), self.in_proj_a(x).float()
        else:
            gates = self.in_proj_ba(x).reshape(*rows)
            b, a = (y.reshape(batch, length, -1).float() for y in gates.chunk(2, -1))
        before, state = states_of(context, self.layer, 2)
        y, before = self.conv1d.read(mixed, context, before)
        y = ACTIVATIONS[spec.activation](y).float()
        q, k, v = y.split([self.key_dim, self.key_dim, self.value_dim], -1)
        q, k = (self._unit(self._heads(y, spec.key_heads, group)) for y in (q, k))
        # Padding neither writes nor decays.
        beta = masked(b.sigmoid(), context)
        steps = masked(softplus(a + self.dt_bias.float()), context)
        beta, decay = (
            y.transpose(1, 2).unsqueeze(-1) for y in (beta, steps * -self.A_log.float().exp())
        )
        out, state = gated_delta_rule(
            q * spec.keys**-0.5, k, self._heads(v, spec.value_heads, 1), decay, beta, state
        )
        if cache is not None:
            cache.set_state(self.layer, before.float(), state)
        # (batch, heads, length, values) -> (batch, length, heads, values)
        out = getattr(self, self.last)(out.transpose(1, 2).to(x.dtype)).reshape(batch, length, -1)
        result: Tensor = self.out_proj(out * ops.silu(z))
        return result

    def _heads(self, x: Tensor, heads: int, times: int) -> Tensor:
        # (batch, length, heads * n) -> (batch, heads * times, length, n)
        x = x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)
        if times == 1:
            return x
        return x.repeat(1, times, 1, 1) if self.spec.tiled else x.repeat_interleave(times, 1)

    @staticmethod
    def _unit(x: Tensor) -> Tensor:
        return x * ((x * x).sum(-1, keepdim=True) + 1e-6).rsqrt()


def delta_of(c: Any, **changes: bool) -> GatedDeltaSpec:
    """The gated delta layers that a configuration asks for; changes: of their description."""
    return GatedDeltaSpec(
        c.hidden_size,
        c.linear_num_key_heads,
        c.linear_num_value_heads,
        c.linear_key_head_dim,
        c.linear_value_head_dim,
        c.linear_conv_kernel_dim,
        c.hidden_act,
        c.rms_norm_eps,
        **changes,
    )


def with_delta(c: Any, plain: DecoderSpec, delta: GatedDeltaSpec) -> DecoderSpec:
    """`plain` with gated attention, and gated delta layers where the configuration has them."""
    every = max(c.full_attention_interval, 1)
    linear = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: bool((i + 1) % every), LINEAR)
    norm = NormSpec("rms", c.rms_norm_eps, offset=1.0)

    def gated(layer: int, a: AttentionSpec) -> AttentionSpec:
        bias = c.attention_bias
        return replace(a, bias=bias, out_bias=bias, norm=norm, gated=True)

    layers = tuple(
        replace(layer, attention=delta, name="linear_attn") if linear[i] else layer
        for i, layer in enumerate(each_attention(plain, gated).layers)
    )
    return replace(plain, layers=layers, norm=norm)
