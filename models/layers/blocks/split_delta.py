"""Gated delta layers with a matrix and a convolution for each of q, k and v.

They are of Kimi Linear (Moonshot AI, 2025) and Ling 3, with a decay for each channel, and of OLMo
Hybrid.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import softplus
from rushlight.core.functional.network.linear_attention import gated_delta_rule
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.state_space import CausalConv, masked, states_of
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass(frozen=True)
class SplitDeltaSpec:
    """A key head serves several value heads; `kernel` tokens are convolved before the rule.

    narrow: decays, one for each channel, and gates come from narrow products, and gates are
    sigmoids (Kimi); else a head has one decay, and gates are whole and SiLU. wide: decays, one for
    each channel, and gates come from whole products, and gates are sigmoids (Ling). least: bounds
    the logarithms of decays, which are then a sigmoid's share of it. doubled: writing rates are up
    to 2, not 1. out: the name of the last matrix.
    """

    width: int
    key_heads: int
    value_heads: int
    keys: int
    values: int
    kernel: int
    activation: str = "silu"
    eps: float = 1e-5
    narrow: bool = False
    doubled: bool = False
    wide: bool = False
    least: float | None = None
    out: str = "o_proj"

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))
        sizes = (self.key_heads, self.value_heads, self.keys, self.values)
        if min(sizes) < 1 or self.value_heads % self.key_heads:
            raise FormatError(
                f"config.json: {self.key_heads} linear heads of {self.keys} keys and "
                f"{self.value_heads} of {self.values} values; sizes must be positive, and heads of "
                "values a multiple of those of keys"
            )

    def __call__(self, layer: int) -> SplitDelta:
        """The block of a layer."""
        return SplitDelta(self, layer)


class SplitDelta(nn.Module):
    """Convolved q, k and v, the gated delta rule, and a norm with a gate."""

    f_a_proj: nn.Linear
    f_b_proj: nn.Linear
    g_a_proj: nn.Linear
    g_b_proj: nn.Linear

    def __init__(self, spec: SplitDeltaSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        inner = spec.value_heads * spec.values
        self.sizes = spec.key_heads * spec.keys, spec.key_heads * spec.keys, inner
        for name, size in zip("qkv", self.sizes, strict=True):
            setattr(self, f"{name}_proj", nn.Linear(spec.width, size, bias=False))
            setattr(self, f"{name}_conv1d", CausalConv(size, spec.kernel, bias=False))
        if spec.narrow:
            for name, size in (("f", self.sizes[1]), ("g", inner)):
                setattr(self, f"{name}_a_proj", nn.Linear(spec.width, spec.values, bias=False))
                setattr(self, f"{name}_b_proj", nn.Linear(spec.values, size, bias=False))
            self.A_log = parameter(1, 1, spec.value_heads, 1)
            self.dt_bias = parameter(self.sizes[1])
        elif spec.wide:
            self.f_proj = nn.Linear(spec.width, self.sizes[1], bias=False)
            self.g_proj = nn.Linear(spec.width, inner, bias=False)
            self.A_log, self.dt_bias = parameter(spec.value_heads), parameter(self.sizes[1])
        else:
            self.a_proj = nn.Linear(spec.width, spec.value_heads, bias=False)
            self.g_proj = nn.Linear(spec.width, inner, bias=False)
            self.A_log, self.dt_bias = parameter(spec.value_heads), parameter(spec.value_heads)
        self.b_proj = nn.Linear(spec.width, spec.value_heads, bias=False)
        self.o_norm = nn.RMSNorm(spec.values, eps=spec.eps)
        setattr(self, spec.out, nn.Linear(inner, spec.width, bias=False))

    def reset_parameters(self) -> None:
        """Rates of 1, time steps' biases of 1."""
        init.zeros_(self.A_log)
        init.ones_(self.dt_bias)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolutions, and the state of the rule."""
        spec = self.spec
        return State(
            ((spec.kernel - 1, sum(self.sizes)), (spec.value_heads, spec.keys, spec.values))
        )

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec = self.spec
        before, state = states_of(context, self.layer, 2)
        own = [None] * 3 if before is None else before.split(list(self.sizes), -1)
        read, kept = [], []
        for name, inputs in zip("qkv", own, strict=True):
            conv = getattr(self, f"{name}_conv1d")
            y, last = conv.read(getattr(self, f"{name}_proj")(x), context, inputs)
            read.append(ACTIVATIONS[spec.activation](y).float())
            kept.append(last.float())
        q, k = (self._each(self._unit(self._heads(y, spec.keys))) for y in read[:2])
        # Padding neither writes nor decays.
        beta = masked(self.b_proj(x).float().sigmoid(), context)
        out, state = gated_delta_rule(
            q * spec.keys**-0.5,
            k,
            self._heads(read[2], spec.values),
            self._decays(x, context),
            self._heads(beta * 2 if spec.doubled else beta, 1),
            state,
        )
        if context.cache is not None:
            context.cache.set_state(self.layer, ops.cat(kept, -1), state)
        # (batch, heads, length, values) -> (batch, length, heads * values)
        out = self.o_norm(out.transpose(1, 2).to(x.dtype)).reshape(*x.shape[:2], -1)
        gate = self.g_b_proj(self.g_a_proj(x)) if spec.narrow else self.g_proj(x)
        gate = gate.sigmoid() if spec.narrow or spec.wide else ops.silu(gate)
        result: Tensor = getattr(self, spec.out)(out * gate)
        return result

    def _decays(self, x: Tensor, context: AttentionContext) -> Tensor:
        # (batch, length, width) -> logarithms, (batch, heads, length, keys or 1)
        spec, of_channels = self.spec, self.spec.narrow or self.spec.wide
        steps = self.f_b_proj(self.f_a_proj(x)) if spec.narrow else (
            self.f_proj(x) if spec.wide else self.a_proj(x)
        )  # fmt: skip
        steps = steps.float() + self.dt_bias.float()
        rates, features = self.A_log.float().exp().reshape(-1, 1, 1), spec.keys * of_channels or 1
        if spec.least is None:
            return self._heads(masked(softplus(steps), context), features) * -rates
        shares = (self._heads(steps, features) * rates).sigmoid().transpose(1, 2)
        shares = masked(shares.reshape(*steps.shape), context)
        return self._heads(shares, features) * spec.least

    @staticmethod
    def _heads(x: Tensor, features: int) -> Tensor:
        # (batch, length, heads * features) -> (batch, heads, length, features)
        return x.reshape(*x.shape[:2], -1, features).transpose(1, 2)

    def _each(self, x: Tensor) -> Tensor:
        # The heads of keys for each head of values.
        times = self.spec.value_heads // self.spec.key_heads
        return x if times == 1 else x.repeat_interleave(times, 1)

    @staticmethod
    def _unit(x: Tensor) -> Tensor:
        return x * ((x * x).sum(-1, keepdim=True) + 1e-6).rsqrt()
