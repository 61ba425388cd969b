"""State space blocks in place of attention: Mamba (Gu and Dao, 2023) and Mamba2 (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float64
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.activations import softplus
from rushlight.core.functional.network.state_space import causal_conv1d, selective_scan
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import LARGEST_SIZE, choose
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.mlp import ACTIVATIONS


class CausalConv(nn.Conv1d):
    """A convolution of each channel over `kernel` tokens, the last of them the token itself."""

    def __init__(self, channels: int, kernel: int, bias: bool) -> None:
        if not 1 <= kernel <= 64:
            raise FormatError(f"config.json: a convolution over {kernel} tokens is out of range")
        super().__init__(channels, channels, kernel, groups=channels, bias=bias)

    def read(
        self, x: Tensor, context: AttentionContext, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(batch, length, channels) -> the same, and the inputs that the next token reads."""
        if context.mask is not None:  # padding on the left is as if there were nothing
            x = masked(x, context)
        return causal_conv1d(x, self.weight, self.bias, state, context.lengths)


def _wide(x: Tensor) -> Tensor:
    """In float32, or float64 where it is that."""
    return x if x.dtype is float64 else x.float()


def masked(x: Tensor, context: AttentionContext) -> Tensor:
    """(batch, length, ...) with zeros for padding."""
    real = context.real(x.shape[1])
    return x if real is None else x * real.to(x.dtype).reshape(*real.shape, *[1] * (x.ndim - 2))


def states_of(context: AttentionContext, layer: int, count: int) -> Sequence[Tensor | None]:
    """The states of a layer; None for each without a cache."""
    return [None] * count if context.cache is None else context.cache.state(layer)


def rank_of(given: Any, width: int) -> int:
    """`time_step_rank` of a config.json: a number, or "auto" for a sixteenth of the width."""
    rank = -(-width // 16) if given == "auto" else given
    if type(rank) is not int or not 0 < rank < LARGEST_SIZE:
        raise FormatError(f"config.json: time_step_rank {brief(given)} is out of range")
    return rank


def limits_of(given: Any) -> tuple[float, float]:
    """The limits of time steps of a config.json; none by default."""
    if given is None:
        return 0.0, float("inf")
    if isinstance(given, list | tuple) and len(given) == 2:
        low, high = given  # transformers writes infinity as an object
        high = float("inf") if high in ({"__float__": "Infinity"}, "Infinity") else high
        if all(type(n) in (int, float) for n in (low, high)) and 0 <= low <= high:
            return float(low), float(high)
    raise FormatError(f"config.json: time_step_limit is {brief(given)}; it must be two numbers")


@dataclass(frozen=True)
class MambaSpec:
    """A block `inner` wide with `states` numbers a channel, each with a decay of its own.

    rank: of the matrix that gives a channel's time steps. kernel: of the convolution. bias: of the
    projections in and out. part_eps: of norms of time steps, b and c, None for no norms;
    part_weights: whether these have weights.
    """

    width: int
    inner: int
    states: int
    rank: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    activation: str = "silu"
    part_eps: float | None = None
    part_weights: bool = True

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))

    def __call__(self, layer: int) -> Mamba:
        """The block of a layer."""
        return Mamba(self, layer)


class Mamba(nn.Module):
    """Mamba's block: a convolution, a selective scan and a gate."""

    def __init__(self, spec: MambaSpec, layer: int) -> None:
        self.spec, self.layer, inner = spec, layer, spec.inner
        self.in_proj = nn.Linear(spec.width, 2 * inner, bias=spec.bias)
        self.conv1d = CausalConv(inner, spec.kernel, spec.conv_bias)
        self.x_proj = nn.Linear(inner, spec.rank + 2 * spec.states, bias=False)
        self.dt_proj = nn.Linear(spec.rank, inner)
        self.A_log, self.D = parameter(inner, spec.states), parameter(inner)
        if spec.part_eps is not None and spec.part_weights:
            self.dt_layernorm = nn.RMSNorm(spec.rank, eps=spec.part_eps)
            self.b_layernorm = nn.RMSNorm(spec.states, eps=spec.part_eps)
            self.c_layernorm = nn.RMSNorm(spec.states, eps=spec.part_eps)
        self.out_proj = nn.Linear(inner, spec.width, bias=spec.bias)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolution, and the state of the scan."""
        spec = self.spec
        # The scan's kernel writes a state of (states, inner).
        return State(((spec.kernel - 1, spec.inner), (spec.states, spec.inner)))

    def reset_parameters(self) -> None:
        """Decays of 1; the input is added once."""
        init.zeros_(self.A_log)
        init.ones_(self.D)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec = self.spec
        before, state = states_of(context, self.layer, 2)
        both = self.in_proj(x)
        h, gate = both[..., : spec.inner], both[..., spec.inner :]
        h, before = self.conv1d.read(h, context, before)
        h = ACTIVATIONS[spec.activation](h)
        steps, b, c = self._normed(*self.x_proj(h).split([spec.rank, *[spec.states] * 2], -1))
        dt = softplus(_wide(self.dt_proj(steps)))
        y, state = selective_scan(
            h.unsqueeze(-1),
            masked(dt, context),
            -_wide(self.A_log).exp(),
            b.unsqueeze(2),
            c.unsqueeze(2),
            self.D,
            None if state is None else state.transpose(1, 2).unsqueeze(2),
        )
        if context.cache is not None:
            context.cache.set_state(self.layer, before.float(), state.squeeze(2).transpose(1, 2))
        out: Tensor = self.out_proj(y.squeeze(-1) * ops.silu(gate))
        return out

    def _normed(self, steps: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        eps = self.spec.part_eps
        if eps is None:
            return steps, b, c
        if self.spec.part_weights:
            return self.dt_layernorm(steps), self.b_layernorm(b), self.c_layernorm(c)
        steps, b, c = (ops.rms_norm(y, (y.shape[-1],), None, eps) for y in (steps, b, c))
        return steps, b, c


@dataclass(frozen=True)
class Mamba2Spec:
    """A block of `heads` heads, each with one decay; `groups` of heads share what they read.

    limits: of the time steps. eps: of the norm after the gate, over each group; None: no norm.
    norm_first: the norm is before the gate. out_bias: of the last projection, if not `bias`.
    scales: of the input, of the result, and of the parts of the first projection: gate, x, b, c and
    time steps. The other fields are those of `MambaSpec`.
    """

    width: int
    heads: int
    head: int
    groups: int
    states: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    activation: str = "silu"
    limits: tuple[float, float] = (0.0, float("inf"))
    eps: float | None = 1e-5
    norm_first: bool = False
    out_bias: bool | None = None
    scales: tuple[float, ...] = (1.0,) * 7

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))
        if self.groups < 1 or self.heads < 1 or self.heads % self.groups:
            raise FormatError(
                f"config.json: n_groups {self.groups} does not divide {self.heads} heads"
            )

    def __call__(self, layer: int) -> Mamba2:
        """The block of a layer."""
        return Mamba2(self, layer)


def mamba2_of(c: Any) -> Mamba2Spec:
    """The block of a config.json with keys that begin with mamba_, as Bamba's and Granite's."""
    inner = int(c.mamba_expand * c.hidden_size)
    head = inner // max(c.mamba_n_heads, 1)
    fits = head * c.mamba_n_heads == inner
    choose("mamba_d_head", c.mamba_d_head, ("auto", head) if fits else ())
    return Mamba2Spec(
        c.hidden_size,
        c.mamba_n_heads,
        head,
        c.mamba_n_groups,
        c.mamba_d_state,
        c.mamba_d_conv,
        c.mamba_proj_bias,
        c.mamba_conv_bias,
        c.hidden_act,
        limits_of(c.time_step_limit),
        c.rms_norm_eps,
    )


class GroupedNorm(nn.RMSNorm):
    """RMS norm over each of `groups` parts of the last dim."""

    def __init__(self, dim: int, groups: int, eps: float) -> None:
        super().__init__(dim, eps=eps)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        assert self.weight is not None and self.eps is not None
        group_width = x.shape[-1] // self.groups
        y = ops.rms_norm(
            x.reshape(*x.shape[:-1], self.groups, group_width), (group_width,), None, self.eps
        )
        return y.reshape(x.shape) * self.weight


class Mamba2(nn.Module):
    """Mamba2's block: one projection, a convolution, a scan by heads, a gate and a norm."""

    def __init__(self, spec: Mamba2Spec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.inner, self.shared = spec.heads * spec.head, spec.groups * spec.states
        channels = self.inner + 2 * self.shared
        self.in_proj = nn.Linear(spec.width, self.inner + channels + spec.heads, bias=spec.bias)
        self.conv1d = CausalConv(channels, spec.kernel, spec.conv_bias)
        self.A_log, self.D = parameter(spec.heads), parameter(spec.heads)
        self.dt_bias = parameter(spec.heads)
        if spec.eps is not None:
            self.norm = GroupedNorm(self.inner, spec.groups, spec.eps)
        bias = spec.bias if spec.out_bias is None else spec.out_bias
        self.out_proj = nn.Linear(self.inner, spec.width, bias=bias)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolution, and the state of the scan."""
        spec = self.spec
        channels = self.inner + 2 * self.shared
        # The scan's kernel reads a state of (states, head) in place.
        return State(((spec.kernel - 1, channels), (spec.heads, spec.states, spec.head)))

    def reset_parameters(self) -> None:
        """Decays of 1, no bias of time steps; the input is added once."""
        for t in (self.A_log, self.dt_bias):
            init.zeros_(t)
        init.ones_(self.D)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, inner, shared = self.spec, self.inner, self.shared
        before, state = states_of(context, self.layer, 2)
        input_scale, result, *parts = spec.scales
        all_, rows = self.in_proj(x if input_scale == 1 else x * input_scale), x.shape[:2]
        if {*parts} != {1.0}:
            sizes = (inner, inner, shared, shared, spec.heads)
            of = zip(sizes, parts, strict=True)
            by = [ops.full((n,), s, dtype=x.dtype, device=x.device) for n, s in of]
            all_ = all_ * ops.cat(by)
        gate, h, dt = all_[..., :inner], all_[..., inner : -spec.heads], all_[..., -spec.heads :]
        h, before = self.conv1d.read(h, context, before)
        h = ACTIVATIONS[spec.activation](h)
        dt = softplus(_wide(dt) + _wide(self.dt_bias))
        low, high = spec.limits
        if low > 0 or high != float("inf"):
            dt = dt.clamp(low, None if high == float("inf") else high)
        y, state = selective_scan(
            h[..., :inner].reshape(*rows, spec.heads, spec.head),
            masked(dt, context),
            -_wide(self.A_log).exp(),
            h[..., inner : inner + shared].reshape(*rows, spec.groups, spec.states),
            h[..., inner + shared :].reshape(*rows, spec.groups, spec.states),
            self.D,
            None if state is None else state.transpose(2, 3),
        )
        if context.cache is not None:
            context.cache.set_state(self.layer, before.float(), state.transpose(2, 3))
        y, gate = y.reshape(*rows, inner), ops.silu(gate)
        if spec.norm_first and spec.eps is not None:
            y = self.norm(y) * gate
        else:
            y = y * gate if spec.eps is None else self.norm(y * gate)
        out: Tensor = self.out_proj(y)
        return out if result == 1 else out * result
