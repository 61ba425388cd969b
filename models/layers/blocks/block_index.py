"""Sparse attention by blocks (MiniMax, 2026): narrow heads choose the blocks of visible keys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.rotary import RotarySpec

if TYPE_CHECKING:
    from rushlight.models.layers.attention import AttentionContext


@dataclass(frozen=True)
class BlockIndexSpec:
    """Each of `heads` of `dim` features chooses `most` blocks of `size` keys for its query heads.

    A block's score is that of its best key; the last `near` blocks are always seen.
    """

    heads: int
    dim: int
    size: int
    most: int
    near: int
    norm: NormSpec

    def __post_init__(self) -> None:
        sizes = (self.heads, self.dim, self.size, self.most - self.near + 1, self.near + 1)
        if min(sizes) < 1:
            raise FormatError(
                "config.json: index_n_heads, index_head_dim, index_block_size, index_topk_blocks "
                f"and index_local_blocks are {self.heads}, {self.dim}, {self.size}, {self.most}, "
                f"{self.near}; they must be positive, and the last no more than the one before"
            )


class BlockIndexer(nn.Module):
    """The index of a layer whose queries are of `queries` heads; the names are the checkpoint's."""

    def __init__(
        self, spec: BlockIndexSpec, width: int, queries: int, rotary: RotarySpec | None
    ) -> None:
        if rotary is None or rotary.dim > spec.dim or queries % spec.heads:
            raise FormatError(
                f"config.json: index_n_heads {spec.heads} with index_head_dim {spec.dim} does not "
                f"fit {queries} heads and their rotary positions"
            )
        self.spec, self.rotary, self.queries = spec, rotary, queries
        self.q_proj = nn.Linear(width, spec.heads * spec.dim, bias=False)
        self.k_proj = nn.Linear(width, spec.dim, bias=False)
        self.q_norm, self.k_norm = (make_norm(spec.dim, spec.norm) for _ in range(2))

    def keys(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the keys that the cache keeps, (batch, 1, length, dim)."""
        return self._rotated(self.k_norm(self.k_proj(x)).unsqueeze(1), context)

    def chosen(
        self, x: Tensor, keys: Tensor, offset: Tensor | int, context: AttentionContext
    ) -> Tensor | None:
        """Which keys each query sees, (batch, heads, length, keys); None if these are all.

        keys: (batch, 1, keys, dim), with those of the cache; offset: the number of earlier tokens
        in it.
        """
        spec, (batch, length, _) = self.spec, x.shape
        count = keys.shape[2]
        blocks = -(-count // spec.size)
        if blocks <= spec.most:
            return context.mask
        q = self.q_norm(self.q_proj(x).reshape(batch, length, spec.heads, -1)).transpose(1, 2)
        scores = self._rotated(q, context) @ keys.to(x.dtype).transpose(2, 3)
        slots = ops.arange(count, device=x.device)
        last = ops.arange(length, device=x.device).reshape(1, 1, length, 1)
        if not isinstance(offset, int):
            last = last + offset.reshape(-1, 1, 1, 1)
        seen = slots <= last
        shift: Tensor | None = None
        if context.mask is not None:
            seen = seen & context.mask
            # Blocks begin with a row's first token: the number of padded places before it.
            before = (ops.cumsum(context.mask.long(), -1) == 0).long().sum(-1, keepdim=True)
            last, shift = last - before, slots.reshape(1, 1, 1, count) + before
        scores = ops.where(seen, scores, -math.inf)
        if shift is not None:
            inside = shift < count
            at = shift.clamp(max=count - 1).expand(*scores.shape)
            scores = ops.where(inside, scores.gather(-1, at), -math.inf)
        if more := blocks * spec.size - count:
            none = ops.full((*scores.shape[:-1], more), -math.inf, device=x.device)
            scores = ops.cat((scores, none.to(scores.dtype)), -1)
        best = scores.reshape(*scores.shape[:-1], blocks, spec.size).amax(-1)
        own, number = last // spec.size, ops.arange(blocks, device=x.device)
        best = ops.where((number <= own) & (number > own - spec.near), math.inf, best)
        kept = best >= best.topk(spec.most, -1)[0][..., -1:]
        kept = kept.unsqueeze(-1).expand(*kept.shape, spec.size)
        kept = kept.reshape(*scores.shape[:-1], -1)[..., :count]
        if shift is not None:
            back = (2 * slots - shift).clamp(min=0).expand(*kept.shape)
            kept = kept.long().gather(-1, back) > 0
        seen = (seen & kept).unsqueeze(2)
        groups = self.queries // spec.heads
        seen = seen.expand(batch, spec.heads, groups, length, count)
        return seen.reshape(batch, self.queries, length, count)

    def _rotated(self, y: Tensor, context: AttentionContext) -> Tensor:
        # (batch, heads, length, dim) -> the same
        cos, sin = context.angles[self.rotary]
        return ops.rope(y, cos, sin, interleaved=self.rotary.interleaved)
