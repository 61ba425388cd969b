"""Attention by a description: groups, biases, norms of q and k, positions, windows, soft caps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import KeysAndValues
from rushlight.models.layers.mlp import projection
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.rotary import Angles, RotarySpec


@dataclass(frozen=True)
class AttentionContext:
    """Positions, mask, lengths and offsets of the tokens that every layer reads.

    angles: cos and sin of each kind of rotary positions. mask: (batch, 1, 1, length), false for
    padding; only without a cache. lengths: (batch,), the tokens of each row without padding on the
    right; padding must not change a recurrent state. offsets: for each layer (batch,), the number
    of earlier tokens in its cache buffers. shared: what a layer leaves for later ones.
    """

    angles: Angles
    mask: Tensor | None = None
    lengths: Tensor | None = None
    cache: Cache | None = None
    offsets: Sequence[Tensor] = ()
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
    is q, k and v of each key head. norm: of q and k, over each head or over "all" heads. scale:
    defaults to 1/sqrt(head_dim). gated: q's matrix has for each head q and a gate, whose sigmoid
    multiplies the head's result. window: the number of tokens that a token attends to, itself
    included. alibi: scores decrease with distance (Press et al., 2021). clip: the largest magnitude
    of v, and of q and k after a norm over all heads.
    """

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False
    out_bias: bool = False
    fused: Literal["", "stacked", "grouped"] = ""
    transposed: bool = False
    norm: NormSpec | None = None
    norm_over: Literal["head", "all"] = "head"
    rotary: RotarySpec | None = None
    alibi: bool = False
    scale: float | None = None
    gated: bool = False
    softcap: float | None = None
    window: int | None = None
    clip: float | None = None
    names: AttentionNames = AttentionNames()

    def __post_init__(self) -> None:
        if self.heads < 1 or self.kv_heads < 1 or self.heads % self.kv_heads:
            raise FormatError(
                f"config.json: num_attention_heads {self.heads} is not a multiple of "
                f"num_key_value_heads {self.kv_heads}"
            )


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
            over = spec.norm_over == "all"
            put(self, names.q_norm, make_norm(q if over else spec.head_dim, spec.norm))
            put(self, names.k_norm, make_norm(kv if over else spec.head_dim, spec.norm))

    @property
    def cache_spec(self) -> KeysAndValues:
        """The state that the cache keeps for this layer."""
        return KeysAndValues(self.spec.kv_heads, self.spec.head_dim, window=self.spec.window)

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
        y = ops.attention(
            q, k, v, causal=True, mask=context.mask, q_offset=offset, scale=spec.scale,
            softcap=spec.softcap, window=spec.window,
            bias=self._alibi(length, k.shape[2], offset, x) if spec.alibi else None,
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
        if spec.norm is not None and spec.norm_over == "all":
            y = getattr(self, norm)(y)
        y = self._split(self._clipped(y))
        if spec.norm is not None and spec.norm_over == "head":
            y = getattr(self, norm)(y)
        if spec.rotary is None:
            return y
        cos, sin = context.angles[spec.rotary]
        return ops.rope(y, cos, sin, interleaved=spec.rotary.interleaved)

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
        all_ = all_.reshape(batch, length, kv, groups + 2, head)
        q, k, v = all_[..., :groups, :], all_[..., groups, :], all_[..., groups + 1, :]
        flat = (batch, length, -1)
        return q.reshape(*flat), k.reshape(*flat), self._clipped(v).transpose(1, 2)

    def _alibi(self, length: int, keys: int, offset: Tensor | int, x: Tensor) -> Tensor:
        """The bias of scores, (1 or batch, heads, length, keys): slope * distance."""
        at = ops.arange(length, device=x.device).unsqueeze(1)
        if not isinstance(offset, int):
            at = at + offset.reshape(-1, 1, 1, 1)
        distance = (ops.arange(keys, device=x.device) - at).float()
        slopes = tensor(slopes_of(self.spec.heads), device=x.device).reshape(-1, 1, 1)
        return slopes * (distance if distance.ndim == 4 else distance[None, None])


def slopes_of(heads: int) -> list[float]:
    """ALiBi's slope of each head: a geometric series; heads past a power of two lie between."""
    near = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (i + 1) / near) for i in range(near)]
    return slopes + [2.0 ** (-4 * (2 * i + 1) / near) for i in range(heads - near)]
