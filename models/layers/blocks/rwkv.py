"""RWKV layers in place of attention and MLP: versions 5 and 6 (Peng et al., 2024) and 7 (2025)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.linear_attention import wkv
from rushlight.core.functional.reductions import normalize
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.state_space import masked, states_of


@dataclass(frozen=True)
class RWKVSpec:
    """A layer of `version` 5, 6 or 7: a recurrence over heads, and a gated or plain MLP.

    ranks: of the products that depend on the token: the decay's; for 6 then the mixture's; for 7
    then those of a, v and the gate. gate and shared: for 5, whether the result is gated, and
    whether a head has one decay. group_eps: of the norm over each head. halved: the last matrices
    of both halves are half as large after every so many layers, as in GGUF; what they give is not.
    """

    version: int
    width: int
    heads: int
    size: int
    inner: int
    ranks: tuple[int, ...] = ()
    gate: bool = True
    shared: bool = False
    eps: float = 1e-5
    group_eps: float = 64e-5
    halved: int = 0

    def __post_init__(self) -> None:
        if min(self.width, self.heads, self.size, self.inner, *self.ranks, 1) < 1:
            raise FormatError(
                f"config.json: a layer of RWKV with hidden_size {self.width}, {self.heads} heads "
                f"of {self.size}, intermediate_size {self.inner} and ranks {self.ranks} is empty"
            )

    def __call__(self, layer: int) -> RWKV:
        """The layer."""
        return RWKV(self, layer)


class RWKV(nn.Module):
    """A whole layer: both halves with their norms and residuals."""

    def __init__(self, spec: RWKVSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        if layer == 0:
            self.ln0 = nn.LayerNorm(spec.width, eps=spec.eps)
        self.ln1 = nn.LayerNorm(spec.width, eps=spec.eps)
        self.ln2 = nn.LayerNorm(spec.width, eps=spec.eps)
        self.att = {5: Mix5, 6: Mix6, 7: Mix7}[spec.version](spec, layer)
        self.ffn = ChannelMix(spec)

    @property
    def cache_spec(self) -> State:
        """The token before, for either half, and the state of the recurrence."""
        spec = self.spec
        return State(((1, spec.width), (spec.heads, spec.size, spec.size), (1, spec.width)))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same, with the residuals."""
        before, state, later = states_of(context, self.layer, 3)
        x = self.ln0(x) if self.layer == 0 else x
        y, last = token_shift(self.ln1(x), context, before)
        out, state = self.att(*y, context, state)
        x = x + self._whole(out)
        y, later = token_shift(self.ln2(x), context, later)
        if context.cache is not None:
            context.cache.set_state(self.layer, last.float(), state, later.float())
        result: Tensor = x + self._whole(self.ffn(*y))
        return result

    def _whole(self, x: Tensor) -> Tensor:
        times = self.layer // self.spec.halved if self.spec.halved else 0
        return x * 2.0**times if times else x


def token_shift(
    x: Tensor, context: AttentionContext, before: Tensor | None
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """x, what the token before each has more than it, and the last token; (batch, length, width).

    before: (batch, 1, width), zeros if None.
    """
    if context.mask is not None:  # padding on the left is as if there were nothing
        x = masked(x, context)
    batch, length, width = x.shape
    if before is None:
        before = ops.zeros(batch, 1, width, dtype=x.dtype, device=x.device)
    tokens = ops.cat([before.to(x.dtype), x], 1)
    if context.lengths is None:
        last = tokens[:, length:]
    else:
        last = tokens.gather(1, context.lengths.reshape(batch, 1, 1).expand(batch, 1, width))
    return (x, tokens[:, :length] - x), last


class Mix(nn.Module):
    """What the recurrences of all versions share: projections by heads, and the norm."""

    def __init__(self, spec: RWKVSpec) -> None:
        self.spec, self.channels = spec, spec.heads * spec.size
        self.receptance = nn.Linear(spec.width, self.channels, bias=False)
        self.key = nn.Linear(spec.width, self.channels, bias=False)
        self.value = nn.Linear(spec.width, self.channels, bias=False)
        self.output = nn.Linear(self.channels, spec.width, bias=False)
        self.ln_x = nn.GroupNorm(spec.heads, self.channels, eps=spec.group_eps)

    def part(self, name: str) -> Tensor:
        """The parameter of this name."""
        weight: Tensor = getattr(self, name)
        return weight

    def heads(self, x: Tensor) -> Tensor:
        """(batch, length, heads * n) -> (batch, heads, length, n)."""
        return x.reshape(*x.shape[:2], self.spec.heads, -1).transpose(1, 2)

    def normed(self, x: Tensor, like: Tensor) -> Tensor:
        """(batch, heads, length, n) -> (batch, length, heads * n) of the dtype of `like`."""
        batch, _, length, _ = x.shape
        rows = x.transpose(1, 2).to(like.dtype).reshape(batch * length, -1)
        out: Tensor = self.ln_x(rows).reshape(batch, length, -1)
        return out


class GatedMix(Mix):
    """The recurrence of versions 5 and 6, which has a bonus for the token itself."""

    gate: nn.Linear

    def read(
        self,
        k: Tensor,
        v: Tensor,
        r: Tensor,
        g: Tensor | None,
        decay: Tensor,
        bonus: Tensor,
        context: AttentionContext,
        state: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The recurrence, its norm and gate, of the mixed inputs and the decay's logarithms."""
        # Padding neither writes nor decays.
        written = self.heads(masked(self.key(k), context))
        out, state = wkv(
            self.heads(self.receptance(r)),
            self.heads(masked(decay, context)),
            written,
            self.heads(self.value(v)),
            bonus=bonus,
            state=state,
        )
        y = self.normed(out, k)
        result: Tensor = self.output(y if g is None else y * ops.silu(self.gate(g)))
        return result, state


class Mix5(GatedMix):
    """Mixtures and decays that are the same for all tokens."""

    def __init__(self, spec: RWKVSpec, layer: int) -> None:
        super().__init__(spec)
        for name in ("k", "v", "r", *["g"] * spec.gate):
            setattr(self, f"time_mix_{name}", parameter(1, 1, spec.width))
        shape = (spec.heads,) if spec.shared else (spec.heads, spec.size)
        self.time_decay, self.time_faaaa = parameter(*shape), parameter(*shape)
        if spec.gate:
            self.gate = nn.Linear(spec.width, self.channels, bias=False)

    def forward(
        self, x: Tensor, more: Tensor, context: AttentionContext, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(batch, length, width) twice -> the same once, and the state."""
        spec = self.spec
        rows = (spec.heads, -1)
        decay = -self.time_decay.float().exp().reshape(1, 1, *rows)
        decay = decay.expand(x.shape[0], x.shape[1], spec.heads, decay.shape[3])
        decay = decay.reshape(x.shape[0], x.shape[1], -1)
        bonus = self.time_faaaa.float().reshape(*rows).expand(spec.heads, spec.size)

        def mixed(name: str) -> Tensor:
            return x + more * (1 - self.part(f"time_mix_{name}"))

        k, v, r, g = mixed("k"), mixed("v"), mixed("r"), mixed("g") if spec.gate else None
        return self.read(k, v, r, g, decay, bonus, context, state)


class Mix6(GatedMix):
    """Mixtures and decays that depend on the token, by products of low rank."""

    def __init__(self, spec: RWKVSpec, layer: int) -> None:
        super().__init__(spec)
        decay, mix = spec.ranks
        for name in "xwkvrg":
            setattr(self, f"time_maa_{name}", parameter(1, 1, spec.width))
        self.time_maa_w1 = parameter(spec.width, 5 * mix)
        self.time_maa_w2 = parameter(5, mix, spec.width)
        self.time_decay = parameter(1, 1, self.channels)
        self.time_decay_w1 = parameter(spec.width, decay)
        self.time_decay_w2 = parameter(decay, self.channels)
        self.time_faaaa = parameter(spec.heads, spec.size)
        self.gate = nn.Linear(spec.width, self.channels, bias=False)

    def forward(
        self, x: Tensor, more: Tensor, context: AttentionContext, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(batch, length, width) twice -> the same once, and the state."""
        batch, length, width = x.shape
        y = ((x + more * self.part("time_maa_x")) @ self.time_maa_w1).tanh()
        # (batch, length, 5 * rank) -> (5, batch * length, rank)
        y = y.reshape(batch * length, 5, -1).transpose(0, 1) @ self.time_maa_w2
        y = y.reshape(5, batch, length, width)
        w, k, v, r, g = (
            x + more * (self.part(f"time_maa_{name}") + y[i]) for i, name in enumerate("wkvrg")
        )
        low = (w @ self.time_decay_w1).tanh() @ self.time_decay_w2
        decay = -(self.time_decay.float() + low.float()).exp()
        return self.read(k, v, r, g, decay, self.time_faaaa.float(), context, state)


class Mix7(Mix):
    """A state that forgets by a delta rule; values lean on those of the first layer."""

    def __init__(self, spec: RWKVSpec, layer: int) -> None:
        super().__init__(spec)
        self.layer = layer
        for name in "rwkvag":
            setattr(self, f"x_{name}", parameter(1, 1, spec.width))
        for name, rank in zip("wavg", spec.ranks, strict=True):
            if name == "v" and layer == 0:
                continue
            setattr(self, f"{name}1", parameter(spec.width, rank))
            setattr(self, f"{name}2", parameter(rank, self.channels))
            if name != "g":
                setattr(self, f"{name}0", parameter(1, 1, self.channels))
        self.k_k, self.k_a = parameter(1, 1, self.channels), parameter(1, 1, self.channels)
        self.r_k = parameter(spec.heads, spec.size)

    def forward(
        self, x: Tensor, more: Tensor, context: AttentionContext, state: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(batch, length, width) twice -> the same once, and the state."""
        weight = self.part
        r, w, k, v, a, g = (x + more * weight(f"x_{name}") for name in "rwkvag")
        r, k, low = self.receptance(r), self.key(k), v
        v = self.value(v)
        decay = (weight("w0") + (w @ weight("w1")).tanh() @ weight("w2")).float().sigmoid() * -(
            math.e**-0.5
        )
        rate = (weight("a0") + a @ weight("a1") @ weight("a2")).sigmoid()
        gate = (g @ weight("g1")).sigmoid() @ weight("g2")
        if self.layer == 0:
            context.shared["value"] = v
        else:
            lean = (weight("v0") + low @ weight("v1") @ weight("v2")).sigmoid()
            v = v + (context.shared["value"] - v) * lean
        # Padding neither writes nor decays.
        away = normalize(self.heads(masked((k * self.k_k).float(), context)), dim=-1)
        k = self.heads(masked(k * (1 + (rate - 1) * self.k_a), context))
        r, v = self.heads(r), self.heads(v)
        out, state = wkv(
            r,
            self.heads(masked(decay, context)),
            k,
            v,
            -away,
            away * self.heads(rate.float()),
            state=state,
        )
        again = (r * k * self.r_k.unsqueeze(1)).sum(-1, keepdim=True) * v
        y = self.normed(out, x) + again.transpose(1, 2).reshape(*x.shape[:2], -1)
        result: Tensor = self.output(y * gate)
        return result, state


class ChannelMix(nn.Module):
    """An MLP with squared ReLUs that also reads the token before; 5 and 6 gate its result."""

    def __init__(self, spec: RWKVSpec) -> None:
        self.version = spec.version
        self.key = nn.Linear(spec.width, spec.inner, bias=False)
        self.value = nn.Linear(spec.inner, spec.width, bias=False)
        self.prefix = {5: "time_mix_", 6: "time_maa_", 7: "x_"}[spec.version]
        if spec.version < 7:
            self.receptance = nn.Linear(spec.width, spec.width, bias=False)
            setattr(self, f"{self.prefix}r", parameter(1, 1, spec.width))
        setattr(self, f"{self.prefix}k", parameter(1, 1, spec.width))

    def forward(self, x: Tensor, more: Tensor) -> Tensor:
        """(batch, length, width) twice -> the same once."""

        def mixed(name: str) -> Tensor:
            mix: Tensor = getattr(self, self.prefix + name)
            return x + more * (1 - mix if self.version == 5 else mix)

        y: Tensor = self.value(ops.relu(self.key(mixed("k"))) ** 2)
        if self.version < 7:
            gate: Tensor = self.receptance(mixed("r"))
            y = y * gate.sigmoid()
        return y
