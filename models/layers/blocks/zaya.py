"""ZAYA's layers (Zyphra, 2025): attention to convolved keys, and experts by a router with a memory.

Compressed convolutional attention (arXiv:2510.04476) convolves q and k, each head by itself, and
takes half of the values from the token before. The router adds what that of the layer before read.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues, State
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.blocks.rwkv import token_shift
from rushlight.models.layers.blocks.state_space import masked, states_of
from rushlight.models.layers.mlp import ACTIVATIONS, ExpertStack
from rushlight.models.layers.naming import put


@dataclass(frozen=True)
class ZayaSpec:
    """A whole layer of `layers`.

    kernels: of the convolution of each channel, and of that of each head. inner: of the experts;
    router: the features of the router.
    """

    width: int
    attention: AttentionSpec
    kernels: tuple[int, int]
    experts: int
    inner: int
    router: int
    layers: int
    activation: str = "silu"
    eps: float = 1e-5

    def __post_init__(self) -> None:
        choose("hidden_act", self.activation, tuple(ACTIVATIONS))
        if not all(1 <= kernel <= 64 for kernel in self.kernels):
            raise FormatError(
                f"config.json: cca_time0 and cca_time1 are {self.kernels}; they must be 1 to 64"
            )
        if self.attention.kv_heads * self.attention.head_dim % 2:
            raise FormatError("config.json: head_dim times num_key_value_heads is not even")

    def __call__(self, layer: int) -> ZayaLayer:
        """The layer of this number."""
        return ZayaLayer(self, layer)


class Scaled(nn.Module):
    """A shifted and scaled sum: (y + bias) * scale + (x + bias) * scale."""

    def __init__(self, width: int) -> None:
        self.hidden_states_scale, self.hidden_states_bias = parameter(width), parameter(width)
        self.residual_scale, self.residual_bias = parameter(width), parameter(width)

    def reset_parameters(self) -> None:
        """A plain sum."""
        for scale in (self.hidden_states_scale, self.residual_scale):
            init.ones_(scale)
        for bias in (self.hidden_states_bias, self.residual_bias):
            init.zeros_(bias)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """(batch, length, width) twice -> the same once; x: the residual."""
        added = (y + self.hidden_states_bias) * self.hidden_states_scale
        return added + (x + self.residual_bias) * self.residual_scale


class ZayaLayer(nn.Module):
    """Attention and experts with norms before them, and scaled sums.

    before: what holds input_hidden_states_scale and _bias, for the first layer; not a child.
    """

    before: tuple[nn.Module, ...]

    def __init__(self, spec: ZayaSpec, layer: int) -> None:
        self.layer, self.before = layer, ()
        self.input_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)
        self.self_attn = ConvolvedAttention(spec, layer)
        self.post_attention_residual_scale = Scaled(spec.width)
        self.post_attention_layernorm = nn.RMSNorm(spec.width, eps=spec.eps)
        self.mlp = RoutedExperts(spec, layer)
        self.post_mlp_residual_scale = Scaled(spec.width)

    @property
    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """What is convolved and the token before; keys and values."""
        return self.self_attn.cache_specs

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        if self.before:
            scale, bias = (
                getattr(self.before[0], f"input_hidden_states_{name}") for name in ("scale", "bias")
            )
            x = (x + bias) * scale
        y = self.self_attn(self.input_layernorm(x), context)
        x = self.post_attention_residual_scale(y, x)
        y = self.mlp(self.post_attention_layernorm(x), context)
        out: Tensor = self.post_mlp_residual_scale(y, x)
        return out


class Projections(nn.Module):
    """q, k and v of convolved attention."""

    def __init__(self, spec: ZayaSpec) -> None:
        a = self.spec = spec.attention
        q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
        self.q_proj = nn.Linear(spec.width, q, bias=a.bias)
        self.k_proj = nn.Linear(spec.width, kv, bias=a.bias)
        self.v_proj_current = nn.Linear(spec.width, kv // 2, bias=a.bias)
        self.v_proj_delayed = nn.Linear(spec.width, kv // 2, bias=a.bias)
        groups, (first, second) = a.heads + a.kv_heads, spec.kernels
        self.conv_qk_depthwise = nn.Conv1d(q + kv, q + kv, first, groups=q + kv)
        self.conv_qk_grouped = nn.Conv1d(q + kv, q + kv, second, groups=groups)
        self.reach = first + second - 2

    def forward(
        self, x: Tensor, context: AttentionContext, before: Tensor | None, token: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """q, k and v, (batch, length, heads, head), and both states.

        x: (batch, length, width); before: (batch, reach, q and k), what was convolved; token:
        (batch, 1, width), the one before.
        """
        a, (batch, length, _) = self.spec, x.shape
        (x, more), last = token_shift(x, context, token)
        q, k = self.q_proj(x), self.k_proj(x)
        both = masked(ops.cat([q, k], -1), context)
        if before is None:
            before = ops.zeros(batch, self.reach, both.shape[2], dtype=x.dtype, device=x.device)
        all_ = ops.cat([before.to(x.dtype), both], 1)
        convolved = self._convolved(all_).reshape(batch, length, -1, a.head_dim)
        if context.lengths is None:
            kept = all_[:, length:]
        else:
            places = context.lengths.unsqueeze(1) + ops.arange(self.reach, device=x.device)
            kept = all_.gather(1, places.unsqueeze(-1).expand(batch, self.reach, both.shape[2]))
        # Each head also has the mean of its q and k as they are.
        groups = a.heads // a.kv_heads
        q = q.reshape(batch, length, a.kv_heads, groups, a.head_dim)
        mixed = (q + k.reshape(batch, length, a.kv_heads, 1, a.head_dim)) * 0.5
        q = convolved[:, :, : a.heads] + mixed.reshape(batch, length, a.heads, a.head_dim)
        k = convolved[:, :, a.heads :] + mixed.mean(3)
        v = ops.cat([self.v_proj_current(x), self.v_proj_delayed(x + more)], -1)
        return q, k, v.reshape(batch, length, a.kv_heads, a.head_dim), kept, last

    def _convolved(self, x: Tensor) -> Tensor:
        # (batch, reach + length, channels) -> (batch, length, channels)
        depth, heads = self.conv_qk_depthwise, self.conv_qk_grouped
        assert depth.bias is not None and heads.bias is not None
        taps = depth.weight.shape[2]
        count = x.shape[1] - taps + 1
        y: Tensor = depth.bias
        for i in range(taps):
            y = y + x[:, i : i + count] * depth.weight[:, 0, i]
        size, taps = heads.weight.shape[1], heads.weight.shape[2]
        count -= taps - 1
        # (heads, in, out) for each tap
        parts = y.reshape(*y.shape[:2], -1, 1, size)
        weight = heads.weight.reshape(-1, size, size, taps)
        out: Tensor = heads.bias
        for i in range(taps):
            product = parts[:, i : i + count] @ weight[..., i].transpose(1, 2)
            out = out + product.reshape(x.shape[0], count, -1)
        return out


class KeyScale(nn.Module):
    """q and k of the length of a root of their size, and k scaled by each head's number."""

    def __init__(self, heads: int) -> None:
        self.temp = parameter(heads)

    def reset_parameters(self) -> None:
        """Zeros."""
        init.zeros_(self.temp)

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, length, heads, head) each -> the same."""

        def unit(y: Tensor) -> Tensor:
            norm = (y * y).sum(-1, keepdim=True).sqrt().clamp(min=1.2e-7)
            root: float = y.shape[-1] ** 0.5
            return y * (root / norm)

        return unit(q), unit(k) * self.temp.unsqueeze(-1)


class ConvolvedAttention(nn.Module):
    """Attention with these projections."""

    def __init__(self, spec: ZayaSpec, layer: int) -> None:
        a = self.spec = spec.attention
        self.layer, self.number, self.width = layer, layer + spec.layers, spec.width
        self.qkv_proj, self.qk_norm = Projections(spec), KeyScale(a.kv_heads)
        self.o_proj = nn.Linear(a.heads * a.head_dim, spec.width, bias=a.bias)

    @property
    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """What is convolved and the token before; keys and values."""
        a = self.spec
        channels = (a.heads + a.kv_heads) * a.head_dim
        state = State(((self.qkv_proj.reach, channels), (1, self.width)))
        return state, KeysAndValues(a.kv_heads, a.head_dim, window=a.window)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        a, cache = self.spec, context.cache
        before, token = states_of(context, self.layer, 2)
        q, k, v, kept, last = self.qkv_proj(x, context, before, token)
        q, k = self.qk_norm(q, k)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        assert a.rotary is not None
        q, k = (ops.rope(y, *context.angles[a.rotary]) for y in (q, k))
        offset: Tensor | int = 0
        if cache is not None:
            offset = context.offsets[self.number]
            k, v = cache.write(self.number, offset, k, v)
            cache.set_state(self.layer, kept.float(), last.float())
        y = ops.attention(q, k, v, causal=True, mask=context.mask, q_offset=offset, window=a.window)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(*x.shape[:2], -1))
        return out


class RouterMLP(nn.Module):
    """The scores of experts, and of none."""

    def __init__(self, width: int, classes: int, eps: float) -> None:
        self.norm = nn.RMSNorm(width, eps=eps)
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)
        self.out_proj = nn.Linear(width, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., classes)."""
        y = ops.gelu(self.fc2(ops.gelu(self.fc1(self.norm(x)))))
        out: Tensor = self.out_proj(y)
        return out


class MemoryRouter(nn.Module):
    """Chooses one expert, or none, by what this and the earlier layers' routers read."""

    def __init__(self, spec: ZayaSpec, layer: int) -> None:
        self.layer, self.count = layer, spec.experts
        self.down_proj = nn.Linear(spec.width, spec.router)
        if layer:
            self.router_states_scale = parameter(spec.router)
        self.router_mlp = RouterMLP(spec.router, spec.experts + 1, spec.eps)
        self.balancing_biases = parameter(spec.experts + 1)

    def reset_parameters(self) -> None:
        """The memory is added once; no expert is preferred."""
        if self.layer:
            init.ones_(self.router_states_scale)
        init.zeros_(self.balancing_biases)

    def forward(self, x: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor]:
        """(batch, length, width) -> weights and numbers of experts, (batch, length, 1)."""
        y = self.down_proj(x)
        if self.layer:
            y = y + context.shared["router"] * self.router_states_scale
        context.shared["router"] = y
        shares = self.router_mlp(y).softmax(-1)
        # Whatever a checkpoint has for none, the reference sets it to -1.
        none = ops.full((1,), -1.0, dtype=float32, device=x.device)
        biases = ops.cat([self.balancing_biases.float()[:-1], none])
        index = (shares.float() + biases).topk(1, -1)[1]
        skipped = index == self.count
        return ops.where(skipped, 0.0, shares.gather(-1, index)), ops.where(skipped, 0, index)


class RoutedExperts(nn.Module):
    """Gated experts, of which each token has one or none."""

    def __init__(self, spec: ZayaSpec, layer: int) -> None:
        self.gate, self.activation = MemoryRouter(spec, layer), ACTIVATIONS[spec.activation]
        for name, out, inside in (
            ("gate_proj", spec.inner, spec.width),
            ("up_proj", spec.inner, spec.width),
            ("down_proj", spec.width, spec.inner),
        ):
            put(self, f"experts.{name}", ExpertStack(spec.experts, out, inside))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        shares, index = self.gate(x, context)

        def stack(name: str, y: Tensor) -> Tensor:
            out: Tensor = self.get_submodule(f"experts.{name}")(y, index)
            return out

        each = x.unsqueeze(2)
        y = self.activation(stack("gate_proj", each)) * stack("up_proj", each)
        out: Tensor = (stack("down_proj", y) * shares.to(x.dtype).unsqueeze(-1)).sum(2)
        return out
