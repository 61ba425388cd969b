"""Multi-head latent attention (DeepSeek, 2024): the cache keeps one narrow row per token.

A row holds the latent, from which a projection makes keys and values of every head, and a key that
is rotated and shared by all heads. For few queries the projection is moved from the keys to the
queries and results: all heads attend to the rows themselves, as heads of one key.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.experts import LINEAR_EXPERTS_T
from rushlight.core.ops.matmul import MATMUL
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import Latent
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.indexed import Indexer, IndexSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.positions.scores import query_temperature

CHOSEN = "chosen keys"  # what a layer's index leaves for later ones


@dataclass(frozen=True)
class LatentSpec:
    """Latent attention over `width` features.

    rank: features of the latent; query_rank: of that of the queries, None for a plain projection.
    plain: features of a head's query and key that are not rotated; value: of its value. bias: of
    the projections to latents and of the last one. temperature (s, n): q is scaled by 1 + s log(1 +
    floor(position / n)). magnify: q and the latent are multiplied by these. gate: the
    name of a matrix whose sigmoid multiplies the results, of all features or of a head at once if
    `gate_heads`. sinks: the name of a further score of each head. rotated: the features of `rotary`
    are rotated; else there are no positions. index: what chooses the keys that are seen. joined:
    the queries' matrix reads their latent before its norm, too, and gives gates. out: the name of
    the last matrix.
    """

    width: int
    heads: int
    rank: int
    query_rank: int | None
    plain: int
    value: int
    rotary: RotarySpec
    scale: float
    bias: bool = False
    temperature: tuple[float, float] | None = None
    magnify: tuple[float, float] = (1.0, 1.0)
    gate: str = ""
    sinks: str = ""
    rotated: bool = True
    index: IndexSpec | None = None
    gate_heads: bool = False
    joined: bool = False
    out: str = "o_proj"

    def __post_init__(self) -> None:
        sizes = (self.heads, self.rank, self.plain, self.value, self.query_rank or 1)
        if min(sizes) < 1:
            raise FormatError(
                f"config.json: num_attention_heads, kv_lora_rank, qk_nope_head_dim, v_head_dim and "
                f"q_lora_rank are {sizes}; they must be positive"
            )
        if self.index is not None and self.query_rank is None:
            raise FormatError("config.json: q_lora_rank is null; an indexer reads its latent")

    def __call__(self, layer: int) -> LatentAttention:
        return LatentAttention(self, layer)


class LatentAttention(nn.Module):
    """Latent attention of layer `layer`; the names are the checkpoint's."""

    def __init__(self, spec: LatentSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        heads, width, rotated = spec.heads, spec.width, spec.rotary.dim
        q = heads * (spec.plain + rotated)
        if spec.query_rank is None:
            self.q_proj = nn.Linear(width, q, bias=False)
        else:
            self.q_a_proj = nn.Linear(width, spec.query_rank, bias=spec.bias)
            self.q_a_layernorm = nn.RMSNorm(spec.query_rank, eps=1e-6)
            rank, rows = spec.query_rank * (1 + spec.joined), q + heads * spec.value * spec.joined
            self.q_b_proj = nn.Linear(rank, rows, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(width, spec.rank + rotated, bias=spec.bias)
        self.kv_a_layernorm = nn.RMSNorm(spec.rank, eps=1e-6)
        self.kv_b_proj = nn.Linear(spec.rank, heads * (spec.plain + spec.value), bias=False)
        setattr(self, spec.out, nn.Linear(heads * spec.value, width, bias=spec.bias))
        if spec.gate:
            gates = heads if spec.gate_heads else heads * spec.value
            put(self, spec.gate, nn.Linear(width, gates, bias=False))
        if spec.sinks:
            setattr(self, spec.sinks, parameter(heads))
        self.indexes = spec.index is not None and spec.index.own
        if spec.index is not None and spec.index.own:
            if spec.query_rank is None:
                raise FormatError("config.json: q_lora_rank is null; an index needs a number")
            self.indexer = Indexer(spec.index, width, spec.query_rank, spec.rotary)

    def reset_parameters(self) -> None:
        """Sinks are zero."""
        if self.spec.sinks:
            init.zeros_(getattr(self, self.spec.sinks))

    @property
    def cache_spec(self) -> Latent:
        """The state that the cache keeps for this layer."""
        rows = [self.spec.rank + self.spec.rotary.dim]
        if self.spec.index is not None and self.indexes:
            rows.append(self.spec.index.dim)
        return Latent(tuple(rows))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, (batch, length, _) = self.spec, x.shape
        angles = context.angles[spec.rotary] if spec.rotated else None

        def rotated(y: Tensor) -> Tensor:  # (batch, heads, length, features)
            if angles is None:
                return y
            return ops.rope(y, *angles, interleaved=spec.rotary.interleaved)

        gate = None
        if spec.query_rank is None:
            q = self.q_proj(x)
        elif spec.joined:
            before = self.q_a_proj(x)
            asking = self.q_a_layernorm(before)
            q = self.q_b_proj(ops.cat((asking, before), -1))
            q, gate = q.reshape(batch, length, spec.heads, -1).split(
                [spec.plain + spec.rotary.dim, spec.value], -1
            )
        else:
            asking = self.q_a_layernorm(self.q_a_proj(x))
            q = self.q_b_proj(asking)
        q = q if spec.magnify[0] == 1 else q * spec.magnify[0]
        q = q.reshape(batch, length, spec.heads, -1)
        if spec.temperature is not None:
            warm = query_temperature(context, (*spec.temperature, 0.0))
            q = q * warm.transpose(1, 2)
        turned = rotated(q[..., spec.plain :].transpose(1, 2))
        both = self.kv_a_proj_with_mqa(x).unsqueeze(1)
        latent = self.kv_a_layernorm(both[..., : spec.rank])
        latent = latent if spec.magnify[1] == 1 else latent * spec.magnify[1]
        # (batch, 1, length, rank + rotated)
        rows = ops.cat((latent, rotated(both[..., spec.rank :])), -1)
        kept: tuple[Tensor, ...] = (rows,)
        if self.indexes:
            kept = rows, self.indexer.keys(x, context)
        offset: Tensor | int = 0
        if context.cache is not None:
            offset = context.offsets[self.layer]
            kept = context.cache.write(self.layer, offset, *kept)
        rows, mask = kept[0], context.mask
        if self.indexes:
            mask = self.indexer.chosen(x, asking, kept[1], offset, context)
            if mask is not None:
                context.shared[CHOSEN] = mask
        elif spec.index is not None:
            mask = context.shared.get(CHOSEN, mask)
        # The products that attending to the latents adds for each key, and those that it saves. A
        # query sees half of the buffer's keys or fewer, and all of them would be expanded.
        added = length * (2 * spec.rank - spec.plain - spec.value)
        saved = 2 * spec.rank * (spec.plain + spec.value)
        absorbed = context.cache is not None and added <= saved
        if absorbed:
            k, v = rows, rows[..., : spec.rank]
            asked = self._absorbed(q[..., : spec.plain]).transpose(1, 2)
        else:
            k, v = self._expanded(rows.to(x.dtype))
            asked = q[..., : spec.plain].transpose(1, 2)
        y = ops.attention(
            ops.cat((asked, turned), -1),
            k,
            v,
            causal=True,
            mask=mask,
            q_offset=offset,
            scale=spec.scale,
            sinks=getattr(self, spec.sinks) if spec.sinks else None,
        ).transpose(1, 2)
        if absorbed:
            y = self._valued(y)
        if spec.gate:
            gate = self.get_submodule(spec.gate)(x).reshape(batch, length, spec.heads, -1)
        y = y if gate is None else y * gate.sigmoid()
        out: Tensor = getattr(self, spec.out)(y.reshape(batch, length, -1))
        return out

    def _absorbed(self, q: Tensor) -> Tensor:
        # (batch, length, heads, plain) -> (batch, length, heads, rank)
        weight = self._by_head()
        if weight.dtype.kind != "q":
            return _each_head(q, weight[:, : self.spec.plain])
        none = ops.zeros(*q.shape[:-1], self.spec.value, dtype=q.dtype, device=q.device)
        latent: Tensor = LINEAR_EXPERTS_T(ops.cat((q, none), -1), weight, _heads_of(q))
        return latent

    def _valued(self, y: Tensor) -> Tensor:
        # (batch, length, heads, rank) -> (batch, length, heads, value)
        weight = self._by_head()
        if weight.dtype.kind != "q":
            return _each_head(y, weight[:, self.spec.plain :].transpose(1, 2))
        return ops.linear_experts(y, weight, _heads_of(y))[..., self.spec.plain :]

    def _by_head(self) -> Tensor:
        """(heads, plain + value, rank): a matrix of each head."""
        return self.kv_b_proj.weight.reshape(self.spec.heads, -1, self.spec.rank)

    def _expanded(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of every head, (batch, heads, keys, features)."""
        spec, (batch, _, keys, _) = self.spec, rows.shape
        both = self.kv_b_proj(rows[:, 0, :, : spec.rank]).reshape(batch, keys, spec.heads, -1)
        both = both.transpose(1, 2)
        shared = rows[..., spec.rank :].expand(batch, spec.heads, keys, spec.rotary.dim)
        return ops.cat((both[..., : spec.plain], shared), -1), both[..., spec.plain :]


def _each_head(x: Tensor, weight: Tensor) -> Tensor:
    """(batch, length, heads, k) @ (heads, k, n), of any storage dtype, for each head."""
    batch, length, heads, k = x.shape
    rows = x.reshape(batch * length, heads, k).transpose(0, 1)
    return MATMUL(rows, weight).transpose(0, 1).reshape(batch, length, heads, weight.shape[2])


def _heads_of(x: Tensor) -> Tensor:
    """The head of each row of x, for products by experts, which read blocks as they are stored."""
    return ops.arange(x.shape[2], device=x.device).expand(*x.shape[:-1])
