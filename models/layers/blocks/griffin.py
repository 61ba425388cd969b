"""The gated linear recurrence of Griffin, RG-LRU (De et al., 2024), in place of attention."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import softplus
from rushlight.core.functional.network.state_space import linear_recurrence
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.state_space import CausalConv, masked, states_of
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass(frozen=True)
class GriffinSpec:
    """A recurrence `inner` wide whose gates are products within each of `heads` parts."""

    width: int
    inner: int
    heads: int
    kernel: int
    activation: str = "gelu_pytorch_tanh"

    def __post_init__(self) -> None:
        choose("hidden_activation", self.activation, tuple(ACTIVATIONS))
        if self.heads < 1 or self.inner % self.heads:
            raise FormatError(
                f"config.json: lru_width {self.inner} is not a multiple of num_attention_heads "
                f"{self.heads}"
            )

    def __call__(self, layer: int) -> Griffin:
        """The block of a layer."""
        return Griffin(self, layer)


class RGLRU(nn.Module):
    """h[t] = a h[t - 1] + sqrt(1 - a^2) i x, where a and i are gates of x."""

    def __init__(self, inner: int, heads: int) -> None:
        head_dim = inner // heads
        self.recurrent_param = parameter(inner)
        self.input_gate_weight = parameter(heads, head_dim, head_dim)
        self.input_gate_bias = parameter(heads, head_dim)
        self.recurrent_gate_weight = parameter(heads, head_dim, head_dim)
        self.recurrent_gate_bias = parameter(heads, head_dim)

    def reset_parameters(self) -> None:
        """Gates that start half open."""
        for t in (self.recurrent_param, self.input_gate_bias, self.recurrent_gate_bias):
            init.zeros_(t)
        for t in (self.input_gate_weight, self.recurrent_gate_weight):
            init.normal_(t, 0.0, 0.01)

    def forward(
        self, x: Tensor, context: AttentionContext, first: Tensor, state: Tensor | None
    ) -> Tensor:
        """The states (batch, length, inner) after each token; first: a row's first tokens."""

        def gate(weight: Tensor, bias: Tensor) -> Tensor:
            # (batch, length, heads, 1, part) @ (heads, part, part) -> (batch, length, inner)
            parts = x.reshape(*x.shape[:2], weight.shape[0], 1, -1)
            return ((parts @ weight).squeeze(3) + bias).sigmoid().reshape(x.shape)

        opened = gate(self.recurrent_gate_weight, self.recurrent_gate_bias).float()
        rate = masked(opened * softplus(self.recurrent_param.float()) * -8.0, context)
        new = (x * gate(self.input_gate_weight, self.input_gate_bias)).float()
        share = (1 - (2 * rate).exp()).sqrt()
        share = share + (1 - share) * first.float().unsqueeze(-1)
        return linear_recurrence(rate.exp(), masked(new * share, context), state)


class Griffin(nn.Module):
    """out(rg_lru(conv(x)) * act(y)), where x and y are projections."""

    def __init__(self, spec: GriffinSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.linear_y = nn.Linear(spec.width, spec.inner)
        self.linear_x = nn.Linear(spec.width, spec.inner)
        self.linear_out = nn.Linear(spec.inner, spec.width)
        self.conv_1d = CausalConv(spec.inner, spec.kernel, bias=True)
        self.rg_lru = RGLRU(spec.inner, spec.heads)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolution, and the recurrence's last state."""
        return State(((self.spec.kernel - 1, self.spec.inner), (self.spec.inner,)))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        cache = context.cache
        before, state = states_of(context, self.layer, 2)
        y = ACTIVATIONS[self.spec.activation](self.linear_y(x))
        h, before = self.conv_1d.read(self.linear_x(x), context, before)
        assert context.positions is not None
        states = self.rg_lru(h, context, context.positions == 0, state)
        if cache is not None:
            cache.set_state(self.layer, before.float(), states[:, -1])
        out: Tensor = self.linear_out(states.to(x.dtype) * y)
        return out
