"""Attention by a description: groups, biases, norms of q and k, positions, windows, soft caps."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import softplus
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.blocks.block_index import BlockIndexer, BlockIndexSpec
from rushlight.models.layers.mlp import projection
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import HeadNorms, NormSpec, make_norm
from rushlight.models.layers.positions.rotary import Angles, RotarySpec
from rushlight.models.layers.positions.scores import (
    alibi,
    query_power,
    query_temperature,
    same_chunk,
)
from rushlight.models.layers.seeing.pictured import seen_together, sees_together


@dataclass(frozen=True)
class AttentionContext:
    """Positions, mask, lengths and offsets of the tokens that every layer reads.

    angles: cos and sin of each kind of rotary positions. mask: (batch, 1, 1, length), false for
    padding; only without a cache. lengths: (batch,), the tokens of each row without padding on the
    right; padding must not change a recurrent state. offsets: for each layer (batch,), the number
    of earlier tokens in its cache buffers. positions: (1 or batch, length). shared: what a layer
    leaves for later ones. pictured: what pictures put in the place of tokens, see
    `seeing/pictured.py`. kept: gets the states after as many layers as each of its keys says.
    """

    angles: Angles
    mask: Tensor | None = None
    lengths: Tensor | None = None
    cache: Cache | None = None
    offsets: Sequence[Tensor] = ()
    positions: Tensor | None = None
    shared: dict[Hashable, Tensor] = field(default_factory=dict)
    pictured: Mapping[str, Tensor] | None = None
    kept: dict[int, Tensor | None] | None = None

    def real(self, length: int) -> Tensor | None:
        """(batch, length) bool, false for padding on either side; None where there is none."""
        if self.mask is not None:
            return self.mask[:, 0, 0, :]
        if self.lengths is None:
            return None
        return ops.arange(length, device=self.lengths.device) < self.lengths.unsqueeze(1)


@dataclass(frozen=True)
class AttentionNames:
    """The checkpoint's names. qkv: the three projections as one matrix, see `AttentionSpec`."""

    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    out: str = "o_proj"
    qkv: str = ""
    q_norm: str = "q_norm"
    k_norm: str = "k_norm"
    gate: str = "gate_proj"
    out_norm: str = "attn_sub_norm"


@dataclass(frozen=True)
class AttentionSpec:
    """Causal self-attention; a group of query heads shares each of `kv_heads` key heads.

    value_dim: of a head's values, where it is not `head_dim`; value_scale multiplies them. fused:
    the row order of the one matrix `names.qkv`: "stacked" is all q, all k, all v; "grouped" is q, k
    and v of each key head; "quarters" is q, v and k of each quarter of the heads. norm: of q and k,
    over each "head", over "each" with a weight of its own, or over "all" heads; of "head" after the
    rotation, if `norm_last`. scale: defaults to 1/sqrt(head_dim). gated: q's matrix has for each
    head q and a gate, whose sigmoid multiplies the head's result. gate_over: a matrix of its own
    gives a gate for "each" feature of the results, or for each "head"; they multiply by its
    `gate_act`. window: the number of tokens that a token attends to, itself included. alibi: scores
    decrease with distance (Press et al., 2021), with `alibi` the exponent of the last head's slope;
    `alibi_rounded`: they rise with the key's position, in bfloat16, before scores are scaled. clip:
    the largest magnitude of v, and of q and k after a norm over all heads. sinks: each head has a
    further score without a value. chunk: a token attends to those of its own piece of so many.
    unit: q and k are divided by their root mean square, with this epsilon, after they are rotated.
    gate_bias: the gates of each head have a bias, `gate_bias`. temperature (s, n, m): q is scaled
    by 1 + s log(1 + floor((position + m) / n)). power (p, n): q is multiplied by (1 + (position +
    1) / n) to the power of p. norm_v: v is divided by its root mean square in each head.
    keys_are_values: v is what k is before its norm and rotation. keys_of: the earlier layer whose
    keys and values are read; it `lends` them. scales: of the input and of the result. key_bias:
    whether k has a bias, where that differs from `bias`; read by attention to a memory. causal:
    false if a token sees later ones too, for vectors of texts; a window counts to both sides then.
    index: what chooses the blocks of keys that are seen. out_norm: of what the last projection
    reads. norm_over "biased": "each", with biases.
    """

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False
    out_bias: bool = False
    key_bias: bool | None = None
    fused: Literal["", "stacked", "grouped", "quarters"] = ""
    transposed: bool = False
    norm: NormSpec | None = None
    norm_over: Literal["head", "each", "biased", "all"] = "head"
    norm_last: bool = False
    rotary: RotarySpec | None = None
    alibi: float | None = None
    alibi_rounded: bool = False
    scale: float | None = None
    gated: bool = False
    gate_over: Literal["", "each", "head"] = ""
    gate_act: Literal["sigmoid", "softplus"] = "sigmoid"
    gate_bias: bool = False
    softcap: float | None = None
    window: int | None = None
    clip: float | None = None
    sinks: bool = False
    chunk: int | None = None
    unit: float | None = None
    temperature: tuple[float, float, float] | None = None
    power: tuple[float, float] | None = None
    norm_v: bool = False
    keys_are_values: bool = False
    keys_of: int | None = None
    lends: bool = False
    scales: tuple[float, float] = (1.0, 1.0)
    value_dim: int | None = None
    value_scale: float = 1.0
    causal: bool = True
    index: BlockIndexSpec | None = None
    out_norm: NormSpec | None = None
    names: AttentionNames = AttentionNames()

    def __post_init__(self) -> None:
        if self.heads < 1 or self.kv_heads < 1 or self.heads % self.kv_heads:
            raise FormatError(
                f"config.json: num_attention_heads {self.heads} is not a multiple of "
                f"num_key_value_heads {self.kv_heads}"
            )
        if self.fused == "quarters" and self.heads % 4:
            raise FormatError(f"config.json: {self.heads} heads do not divide into quarters")
        if self.chunk is not None and self.chunk < 1:
            raise FormatError(f"config.json: attention_chunk_size is {self.chunk}")


class Attention(nn.Module):
    """Self-attention of layer `layer`."""

    def __init__(self, width: int, spec: AttentionSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        names = spec.names
        q, kv = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        value = spec.value_dim or spec.head_dim
        if spec.fused:
            put(self, names.qkv, projection(width, q + 2 * kv, spec.bias, spec.transposed))
        else:
            made = 0 if spec.keys_of is not None else 2 - spec.keys_are_values
            keys_and_values = ((names.k, kv), (names.v, spec.kv_heads * value))[:made]
            for name, size in ((names.q, q * (1 + spec.gated)), *keys_and_values):
                put(self, name, projection(width, size, spec.bias, spec.transposed))
        put(self, names.out, projection(spec.heads * value, width, spec.out_bias, spec.transposed))
        if spec.gate_over:
            gates = spec.heads * (1 if spec.gate_over == "head" else value)
            put(self, names.gate, nn.Linear(width, gates, bias=False))
        if spec.gate_bias:
            self.gate_bias = parameter(spec.heads)
        if spec.norm is not None:
            both = ((names.q_norm, spec.heads), (names.k_norm, spec.kv_heads))
            for name, heads in both[: 1 + (spec.keys_of is None)]:
                over = spec.head_dim * (heads if spec.norm_over == "all" else 1)
                each, biased = spec.norm_over in ("each", "biased"), spec.norm_over == "biased"
                put(
                    self,
                    name,
                    HeadNorms(heads, over, spec.norm.eps, biased)
                    if each
                    else make_norm(over, spec.norm),
                )
        if spec.out_norm is not None:
            put(self, names.out_norm, make_norm(spec.heads * value, spec.out_norm))
        if spec.sinks:
            self.sinks = parameter(spec.heads)
        if spec.index is not None:
            self.indexer = BlockIndexer(spec.index, width, spec.heads, spec.rotary)

    @property
    def cache_spec(self) -> KeysAndValues:
        """The state that the cache keeps for this layer."""
        spec = self.spec
        heads = spec.kv_heads if spec.keys_of is None else 0
        window = spec.window or spec.chunk
        index = 0 if spec.index is None else spec.index.dim
        return KeysAndValues(heads, spec.head_dim, spec.value_dim, window, index)

    def reset_parameters(self) -> None:
        """Sinks and biases of gates are zero."""
        if self.spec.sinks:
            init.zeros_(self.sinks)
        if self.spec.gate_bias:
            init.zeros_(self.gate_bias)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, cache = self.spec, context.cache
        batch, length, _ = x.shape
        x = x if spec.scales[0] == 1 else x * spec.scales[0]
        gate = None
        if spec.fused:
            q, k, v = self._fused(x)
            q = self._placed(q, spec.names.q_norm, context)
            k = self._placed(k, spec.names.k_norm, context)
        else:
            names = spec.names
            q = getattr(self, names.q)(x)
            if spec.gated:
                q, gate = q.reshape(batch, length, spec.heads, -1).chunk(2, -1)
                q, gate = (y.reshape(batch, length, -1) for y in (q, gate))
            q = self._placed(q, names.q_norm, context)
            if spec.keys_of is None:
                k = getattr(self, names.k)(x)
                v = k if spec.keys_are_values else getattr(self, names.v)(x)
                k = self._placed(k, names.k_norm, context)
                v = self._split(self._clipped(v), spec.value_dim)
                v = v if spec.value_scale == 1 else v * spec.value_scale
        offset: Tensor | int = 0
        if cache is not None:
            place = offset = context.offsets[self.layer]
        if spec.keys_of is not None:
            k, v = (context.shared[spec.keys_of, key_or_value] for key_or_value in "kv")
        else:
            if spec.norm_v:
                v = ops.rms_norm(v, (spec.head_dim,), None, spec.norm.eps if spec.norm else 1e-6)
            more = [] if spec.index is None else [self.indexer.keys(x, context)]
            if cache is not None:
                k, v, *more = cache.write(self.layer, place, k, v, *more)
        if spec.lends:
            context.shared[self.layer, "k"], context.shared[self.layer, "v"] = k, v
        if spec.temperature is not None:
            q = q * query_temperature(context, spec.temperature)
        if spec.power is not None:
            q = q * query_power(context, spec.power)
        mask, keys = context.mask, k.shape[2]
        if spec.chunk is not None:
            mask = same_chunk(spec, context, offset, keys, spec.chunk)
        if spec.index is not None:
            mask = self.indexer.chosen(x, more[0], offset, context)
        causal, window = spec.causal, spec.window
        pictured = context.pictured
        if pictured is not None and sees_together(pictured, window):
            mask = seen_together(pictured, offset, keys, window, mask)
            causal, window = False, None
        y = ops.attention(
            q,
            k,
            v,
            causal=causal,
            mask=mask,
            q_offset=offset,
            scale=spec.scale,
            softcap=spec.softcap,
            window=window,
            sinks=self.sinks if spec.sinks else None,
            bias=alibi(spec, context, length, keys, offset) if spec.alibi else None,
        )
        y = y.transpose(1, 2)
        if spec.gate_over:
            y = y * self._gates(x)
        y = y.reshape(batch, length, -1)
        y = y if gate is None else y * gate.sigmoid()
        y = y if spec.out_norm is None else getattr(self, spec.names.out_norm)(y)
        out: Tensor = getattr(self, spec.names.out)(y)
        return out if spec.scales[1] == 1 else out * spec.scales[1]

    def _gates(self, x: Tensor) -> Tensor:
        # (batch, length, width) -> (batch, length, heads, head or 1)
        gate: Tensor = getattr(self, self.spec.names.gate)(x)
        gate = gate.reshape(*x.shape[:2], self.spec.heads, -1)
        gate = gate + self.gate_bias.unsqueeze(-1) if self.spec.gate_bias else gate
        return gate.sigmoid() if self.spec.gate_act == "sigmoid" else softplus(gate)

    def _clipped(self, y: Tensor) -> Tensor:
        clip = self.spec.clip
        return y if clip is None else y.clamp(-clip, clip)

    def _split(self, y: Tensor, features: int | None = None) -> Tensor:
        # (batch, length, heads * head) -> (batch, heads, length, head)
        batch, length, width = y.shape
        heads = width // (features or self.spec.head_dim)
        return y.reshape(batch, length, heads, -1).transpose(1, 2)

    def _placed(self, y: Tensor, norm: str, context: AttentionContext) -> Tensor:
        """q or k, (batch, length, heads * head): normalised, split into heads and rotated."""
        spec = self.spec
        normed = None if spec.norm is None else self.get_submodule(norm)
        if normed is not None and spec.norm_over == "all":
            y = normed(y)
        y = self._split(self._clipped(y))
        within = normed if spec.norm_over != "all" else None
        if within is not None and not spec.norm_last:
            y = within(y)
        if spec.rotary is not None:
            cos, sin = context.angles[spec.rotary]
            y = ops.rope(y, cos, sin, interleaved=spec.rotary.interleaved)
        if within is not None and spec.norm_last:
            y = within(y)
        return y if spec.unit is None else ops.rms_norm(y, (spec.head_dim,), None, spec.unit)

    def _fused(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q and k (batch, length, heads * head), and v split into heads, from one product."""
        spec = self.spec
        batch, length, _ = x.shape
        all_: Tensor = getattr(self, spec.names.qkv)(x)
        head, kv, groups = spec.head_dim, spec.kv_heads, spec.heads // spec.kv_heads
        if spec.fused == "stacked":
            first, end = spec.heads * head, (spec.heads + kv) * head
            return (
                all_[..., :first],
                all_[..., first:end],
                self._split(self._clipped(all_[..., end:])),
            )
        flat = (batch, length, -1)
        if spec.fused == "quarters":
            all_ = all_.reshape(batch, length, 4, 3, -1)
            q, v, k = (all_[:, :, :, i].reshape(*flat) for i in range(3))
            return q, k, self._split(self._clipped(v))
        all_ = all_.reshape(batch, length, kv, groups + 2, head)
        q, k, v = all_[..., :groups, :], all_[..., groups, :], all_[..., groups + 1, :]
        return q.reshape(*flat), k.reshape(*flat), self._clipped(v).transpose(1, 2)
