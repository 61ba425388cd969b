"""Zamba's layers (Zyphra, 2024): state spaces, and in some layers a transformer that is shared.

The transformer reads the embedding beside what the layer reads; its result goes through a matrix of
the layer's own, and is added to what the state space reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import softplus
from rushlight.core.functional.network.state_space import selective_scan
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues, State
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.blocks.state_space import (
    CausalConv,
    Mamba2Spec,
    masked,
    states_of,
)
from rushlight.models.layers.mlp import ACTIVATIONS


@dataclass(frozen=True)
class HeadedMambaSpec:
    """Mamba's block with `heads` parts, each with time steps, b and c of its own (Zamba)."""

    width: int
    inner: int
    heads: int
    states: int
    rank: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    activation: str = "silu"

    def __post_init__(self) -> None:
        choose("hidden_mamba_act", self.activation, tuple(ACTIVATIONS))
        if self.heads < 1 or self.inner % self.heads:
            raise FormatError(
                f"config.json: n_mamba_heads {self.heads} does not divide {self.inner} features"
            )

    def __call__(self, layer: int) -> HeadedMamba:
        """The block of a layer."""
        return HeadedMamba(self, layer)


class HeadedMamba(nn.Module):
    """A convolution, a selective scan of each head, and a gate."""

    def __init__(self, spec: HeadedMambaSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        head, inner = spec.inner // spec.heads, spec.inner
        self.in_proj = nn.Linear(spec.width, 2 * inner, bias=spec.bias)
        self.conv1d = CausalConv(inner, spec.kernel, spec.conv_bias)
        self.x_proj_weight = parameter(spec.heads, spec.rank + 2 * spec.states, head)
        self.dt_proj_weight = parameter(spec.heads, head, spec.rank)
        self.dt_proj_bias = parameter(spec.heads, head)
        self.A_log, self.D = parameter(spec.heads, head, spec.states), parameter(spec.heads, head)
        self.out_proj = nn.Linear(inner, spec.width, bias=spec.bias)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolution, and the states of the scans."""
        spec = self.spec
        return State(((spec.kernel - 1, spec.inner), (spec.states, spec.inner)))

    def reset_parameters(self) -> None:
        """Decays of 1, no steps; the input is added once."""
        for t in (self.A_log, self.dt_proj_bias):
            init.zeros_(t)
        for t in (self.x_proj_weight, self.dt_proj_weight):
            init.normal_(t)
        init.ones_(self.D)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, rows = self.spec, x.shape[:2]
        before, state = states_of(context, self.layer, 2)
        # What is convolved and gates take turns.
        both = self.in_proj(x).reshape(*rows, spec.inner, 2)
        h, before = self.conv1d.read(both[..., 0], context, before)
        h = ACTIVATIONS[spec.activation](h)
        # (batch, length, heads, 1, head) @ (heads, head, rank + 2 states)
        parts = h.reshape(*rows, spec.heads, 1, -1)
        known = (parts @ self.x_proj_weight.transpose(1, 2)).squeeze(3)
        steps, b, c = known.split([spec.rank, spec.states, spec.states], -1)
        steps = (steps.unsqueeze(3) @ self.dt_proj_weight.transpose(1, 2)).squeeze(3)
        dt = softplus((steps + self.dt_proj_bias).float()).reshape(*rows, spec.inner)
        y, state = selective_scan(
            h.unsqueeze(-1),
            masked(dt, context),
            -self.A_log.float().exp().reshape(spec.inner, spec.states),
            b,
            c,
            self.D.reshape(-1),
            None if state is None else state.transpose(1, 2).unsqueeze(2),
        )
        if context.cache is not None:
            context.cache.set_state(self.layer, before.float(), state.squeeze(2).transpose(1, 2))
        out: Tensor = self.out_proj(y.squeeze(-1) * ops.silu(both[..., 1]))
        return out


@dataclass(frozen=True)
class TransformerSpec:
    """The shared transformer: attention over twice the width, and a gated MLP `inner` wide.

    blocks: how many there are; layers with one take turns, or have each their own if not `shared`.
    rank: of adapters that each layer has of
    its own, 0 for none; adapted: whether q, k and v have some too. joined: gate and up are one
    matrix, with a bias as `bias` says.
    """

    attention: AttentionSpec
    inner: int
    activation: str
    blocks: int = 1
    shared: bool = True
    rank: int = 0
    adapted: bool = False
    joined: bool = False
    bias: bool = False
    name: str = "shared_transf"

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))


@dataclass(frozen=True)
class ZambaSpec:
    """A whole layer; `hybrid` are the numbers of those with the transformer, of `layers`."""

    width: int
    scan: HeadedMambaSpec | Mamba2Spec
    transformer: TransformerSpec
    hybrid: tuple[int, ...]
    layers: int
    eps: float

    def __call__(self, layer: int) -> nn.Module:
        """The layer of this number."""
        return (HybridLayer if layer in self.hybrid else ScanLayer)(self, layer)


class ScanLayer(nn.Module):
    """A norm and a state space, with a residual."""

    def __init__(self, spec: ZambaSpec, layer: int) -> None:
        self.mamba = spec.scan(layer)
        self.input_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)

    @property
    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state of the scan."""
        return (self.mamba.cache_spec,)

    def forward(self, x: Tensor, context: AttentionContext, more: Tensor | None = None) -> Tensor:
        """(batch, length, width) -> the same; more: is added to what the norm reads."""
        context.shared.setdefault("embedded", x)
        y = x if more is None else x + more
        out: Tensor = x + self.mamba(self.input_layernorm(y), context)
        return out


class HybridLayer(nn.Module):
    """The transformer, a matrix, and a state space; `share` says whose transformer it is."""

    def __init__(self, spec: ZambaSpec, layer: int) -> None:
        self.turn = spec.hybrid.index(layer)
        self.number = spec.layers + self.turn  # of its keys and values
        shape = spec.transformer
        block = SharedTransformer(spec, self.turn % max(shape.blocks, 1))
        self.own = self.turn < shape.blocks or not shape.shared
        self._shared = (block,)  # in a tuple: not a child
        if self.own:
            setattr(self, shape.name, block)
        self.linear = nn.Linear(spec.width, spec.width, bias=False)
        self.mamba_decoder = ScanLayer(spec, layer)

    def share(self, other: HybridLayer) -> None:
        """Read with the transformer of another layer."""
        self._shared = other._shared

    @property
    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state of the scan; keys and values."""
        attention = self._shared[0].spec.transformer.attention
        keys = KeysAndValues(attention.kv_heads, attention.head_dim)
        return (*self.mamba_decoder.cache_specs, keys)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        embedded = context.shared.setdefault("embedded", x)
        both = ops.cat([x, embedded], -1)
        y = self.linear(self._shared[0](both, context, self.number, self.turn))
        out: Tensor = self.mamba_decoder(x, context, y)
        return out


class SharedTransformer(nn.Module):
    """Attention over twice the width, an MLP, and norms before both; there are no residuals."""

    def __init__(self, spec: ZambaSpec, block: int) -> None:
        self.spec, shape = spec, spec.transformer
        self.input_layernorm = nn.RMSNorm(2 * spec.width, eps=spec.eps)
        self.self_attn = SharedAttention(spec, block)
        self.pre_ff_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)
        self.feed_forward = SharedMLP(spec.width, shape, _turns(spec, block))

    def forward(self, x: Tensor, context: AttentionContext, number: int, turn: int) -> Tensor:
        """(batch, length, 2 width) -> (batch, length, width).

        number: of the layer's keys and values in the cache; turn: the number of its adapters.
        """
        y = self.self_attn(self.input_layernorm(x), context, number, turn)
        out: Tensor = self.feed_forward(self.pre_ff_layernorm(y), turn)
        return out


class SharedAttention(nn.Module):
    """Attention that keeps keys and values for each layer that it serves."""

    def __init__(self, spec: ZambaSpec, block: int) -> None:
        shape, wide = spec.transformer, 2 * spec.width
        self.spec = attention = shape.attention
        q, kv = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
        self.adapted, turns = shape.adapted, _turns(spec, block)
        for name, size in (("q", q), ("k", kv), ("v", kv)):
            setattr(self, f"{name}_proj", nn.Linear(wide, size, bias=False))
            if shape.adapted:
                adapters = _adapters(wide, shape.rank, q, turns)
                setattr(self, f"linear_{name}_adapter_list", adapters)
        self.o_proj = nn.Linear(q, spec.width, bias=False)

    def forward(self, x: Tensor, context: AttentionContext, number: int, turn: int) -> Tensor:
        """(batch, length, 2 width) -> (batch, length, width)."""
        spec, rows = self.spec, x.shape[:2]

        def projected(name: str) -> Tensor:
            y: Tensor = getattr(self, f"{name}_proj")(x)
            if self.adapted:
                y = y + getattr(self, f"linear_{name}_adapter_list")[turn](x)
            return y.reshape(*rows, -1, spec.head_dim).transpose(1, 2)

        q, k, v = (projected(name) for name in "qkv")
        if spec.rotary is not None:
            q, k = (ops.rope(y, *context.angles[spec.rotary]) for y in (q, k))
        offset: Tensor | int = 0
        if context.cache is not None:
            offset = context.offsets[number]
            k, v = context.cache.write(number, offset, k, v)
        y = ops.attention(
            q, k, v, causal=True, mask=context.mask, q_offset=offset, scale=spec.scale
        )
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(*rows, -1))
        return out


class SharedMLP(nn.Module):
    """A gated MLP, with adapters of each layer that it serves."""

    def __init__(self, width: int, spec: TransformerSpec, turns: Sequence[bool]) -> None:
        self.spec = spec
        if spec.joined:
            self.gate_up_proj = nn.Linear(width, 2 * spec.inner, bias=spec.bias)
            adapters = _adapters(width, spec.rank, 2 * spec.inner, turns)
            self.gate_up_proj_adapter_list = adapters
        else:
            self.gate_proj = nn.Linear(width, spec.inner, bias=False)
            self.up_proj = nn.Linear(width, spec.inner, bias=False)
        self.down_proj = nn.Linear(spec.inner, width, bias=spec.bias)

    def forward(self, x: Tensor, turn: int) -> Tensor:
        """(batch, length, width) -> the same."""
        act = ACTIVATIONS[self.spec.activation]
        if self.spec.joined:
            both = self.gate_up_proj(x) + self.gate_up_proj_adapter_list[turn](x)
            gate, up = both.chunk(2, -1)
        else:
            gate, up = self.gate_proj(x), self.up_proj(x)
        out: Tensor = self.down_proj(act(gate) * up)
        return out


def _turns(spec: ZambaSpec, block: int) -> list[bool]:
    """Whether each hybrid layer reads with the block."""
    return [turn % max(spec.transformer.blocks, 1) == block for turn in range(len(spec.hybrid))]


def _adapters(inside: int, rank: int, outside: int, turns: Sequence[bool]) -> Any:
    # Those of layers that another block serves are empty.
    def adapter() -> Any:
        first, second = nn.Linear(inside, rank, bias=False), nn.Linear(rank, outside, bias=False)
        return nn.Sequential(first, second)

    return nn.ModuleList(adapter() if served else nn.Identity() for served in turns)
