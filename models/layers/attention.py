"""Attention by a description: groups, biases, norms of q and k, positions, windows, soft caps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import bfloat16
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.mlp import projection
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import HeadNorms, NormSpec, make_norm
from rushlight.models.layers.rotary import Angles, RotarySpec


@dataclass(frozen=True)
class AttentionContext:
    """Positions, mask, lengths and offsets of the tokens that every layer reads.

    angles: cos and sin of each kind of rotary positions. mask: (batch, 1, 1, length), false for
    padding; only without a cache. lengths: (batch,), the tokens of each row without padding on the
    right; padding must not change a recurrent state. offsets: for each layer (batch,), the number
    of earlier tokens in its cache buffers. positions: (1 or batch, length). shared: what a layer
    leaves for later ones.
    """

    angles: Angles
    mask: Tensor | None = None
    lengths: Tensor | None = None
    cache: Cache | None = None
    offsets: Sequence[Tensor] = ()
    positions: Tensor | None = None
    shared: dict[str, Tensor] = field(default_factory=dict)

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


@dataclass(frozen=True)
class AttentionSpec:
    """Causal self-attention; a group of query heads shares each of `kv_heads` key heads.

    fused: the row order of the one matrix `names.qkv`: "stacked" is all q, all k, all v; "grouped"
    is q, k and v of each key head; "quarters" is q, v and k of each quarter of the heads. norm: of
    q and k, over each "head", over "each" with a weight of its own, or over "all" heads; of "head"
    after the rotation, if `norm_last`. scale: defaults to 1/sqrt(head_dim). gated: q's matrix has
    for each head q and a gate, whose sigmoid multiplies the head's result. window: the number of
    tokens that a token attends to, itself included. alibi: scores decrease with distance (Press et
    al., 2021), with `alibi` the exponent of the last head's slope; `alibi_rounded`: they rise with
    the key's position, in bfloat16, before scores are scaled. clip: the largest magnitude of v, and
    of q and k after a norm over all heads. sinks: each head has a further score without a value.
    chunk: a token attends to those of its own piece of so many. unit: q and k are divided by their
    root mean square, with this epsilon, after they are rotated. temperature (s, n): q is scaled by
    1 + s log(1 + floor((position + 1) / n)).
    """

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False
    out_bias: bool = False
    fused: Literal["", "stacked", "grouped", "quarters"] = ""
    transposed: bool = False
    norm: NormSpec | None = None
    norm_over: Literal["head", "each", "all"] = "head"
    norm_last: bool = False
    rotary: RotarySpec | None = None
    alibi: float | None = None
    alibi_rounded: bool = False
    scale: float | None = None
    gated: bool = False
    softcap: float | None = None
    window: int | None = None
    clip: float | None = None
    sinks: bool = False
    chunk: int | None = None
    unit: float | None = None
    temperature: tuple[float, float] | None = None
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
        if spec.fused:
            put(self, names.qkv, projection(width, q + 2 * kv, spec.bias, spec.transposed))
        else:
            for name, size in ((names.q, q * (1 + spec.gated)), (names.k, kv), (names.v, kv)):
                put(self, name, projection(width, size, spec.bias, spec.transposed))
        put(self, names.out, projection(q, width, spec.out_bias, spec.transposed))
        if spec.norm is not None:
            for name, heads in ((names.q_norm, spec.heads), (names.k_norm, spec.kv_heads)):
                over = spec.head_dim * (heads if spec.norm_over == "all" else 1)
                each = spec.norm_over == "each"
                put(self, name, HeadNorms(heads, over, spec.norm.eps) if each
                    else make_norm(over, spec.norm))  # fmt: skip
        if spec.sinks:
            self.sinks = parameter(spec.heads)

    @property
    def cache_spec(self) -> KeysAndValues:
        """The state that the cache keeps for this layer."""
        spec = self.spec
        return KeysAndValues(spec.kv_heads, spec.head_dim, window=spec.window or spec.chunk)

    def reset_parameters(self) -> None:
        """Sinks are zero."""
        if self.spec.sinks:
            init.zeros_(self.sinks)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, cache = self.spec, context.cache
        batch, length, _ = x.shape
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
            k = self._placed(getattr(self, names.k)(x), names.k_norm, context)
            v = self._split(self._clipped(getattr(self, names.v)(x)))
        offset: Tensor | int = 0
        if cache is not None:
            offset = context.offsets[self.layer]
            k, v = cache.write(self.layer, offset, k, v)
        if spec.temperature is not None:
            q = q * self._warmth(context, spec.temperature)
        mask = context.mask
        if spec.chunk is not None:
            mask = self._chunked(context, offset, k.shape[2], spec.chunk)
        y = ops.attention(
            q, k, v, causal=True, mask=mask, q_offset=offset, scale=spec.scale,
            softcap=spec.softcap, window=spec.window, sinks=self.sinks if spec.sinks else None,
            bias=self._alibi(length, k.shape[2], offset, context) if spec.alibi else None,
        )  # fmt: skip
        y = y.transpose(1, 2).reshape(batch, length, -1)
        out: Tensor = getattr(self, spec.names.out)(y if gate is None else y * gate.sigmoid())
        return out

    def _clipped(self, y: Tensor) -> Tensor:
        clip = self.spec.clip
        return y if clip is None else y.clamp(-clip, clip)

    def _split(self, y: Tensor) -> Tensor:
        # (batch, length, heads * head) -> (batch, heads, length, head)
        batch, length, width = y.shape
        heads = width // self.spec.head_dim
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

    def _warmth(self, context: AttentionContext, by: tuple[float, float]) -> Tensor:
        assert context.positions is not None
        steps = ((context.positions.float() + 1) / by[1]).floor()
        return (ops.log(steps + 1) * by[0] + 1)[:, None, :, None]

    def _chunked(
        self, context: AttentionContext, offset: Tensor | int, keys: int, chunk: int
    ) -> Tensor:
        """The mask of keys in the same chunk as a query, (1 or batch, 1, length, keys)."""
        at = context.positions
        assert at is not None
        key = at
        if not isinstance(offset, int):
            first = at[:, :1] - offset.reshape(-1, 1)  # the position of the first slot
            key = first + ops.arange(keys, device=at.device)
        same = (at // chunk).unsqueeze(2) == (key // chunk).unsqueeze(1)
        return same.unsqueeze(1) if context.mask is None else context.mask & same.unsqueeze(1)

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

    def _alibi(
        self, length: int, keys: int, offset: Tensor | int, context: AttentionContext
    ) -> Tensor:
        """The bias of scores, (1 or batch, heads, length or 1, keys): slope * distance."""
        spec, device = self.spec, next(iter(self.parameters())).device
        slopes = tensor(slopes_of(spec.heads, spec.alibi or 0.0), device=device).reshape(-1, 1, 1)
        if spec.alibi_rounded:
            where = ops.arange(keys, device=device)[None, None, None]
            if context.mask is not None:
                where = (ops.cumsum(context.mask.long(), -1) - 1).clamp(min=0)
            bias = (slopes.to(bfloat16) * where.to(bfloat16)).float()
            return bias * (spec.scale or spec.head_dim**-0.5)
        at = ops.arange(length, device=device).unsqueeze(1)
        if not isinstance(offset, int):
            at = at + offset.reshape(-1, 1, 1, 1)
        distance = (ops.arange(keys, device=device) - at).float()
        return slopes * (distance if distance.ndim == 4 else distance[None, None])


def slopes_of(heads: int, most: float = 8.0) -> list[float]:
    """ALiBi's slope of each head: a geometric series; heads past a power of two lie between."""
    near = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-most * (i + 1) / near) for i in range(near)]
    return slopes + [2.0 ** (-most / 2 * (2 * i + 1) / near) for i in range(heads - near)]
