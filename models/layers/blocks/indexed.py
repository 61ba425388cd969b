"""Sparse attention by an index (DeepSeek, 2025): narrow heads choose the keys that a query sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.positions.rotary import RotarySpec


@dataclass(frozen=True)
class IndexSpec:
    """`heads` of `dim` features give scores, by which each query keeps `most` keys.

    The last features are rotated as those of attention, or the first ones if `leading`.
    interleaved: the order of their pairs, where it is not that of attention. eps: of the norm of
    keys. own: false for a layer that sees what an earlier one has chosen.
    """

    heads: int
    dim: int
    most: int
    eps: float
    own: bool = True
    leading: bool = False
    interleaved: bool | None = None

    def __post_init__(self) -> None:
        if min(self.heads, self.dim, self.most) < 1:
            raise FormatError(
                f"config.json: index_n_heads, index_head_dim and index_topk are {self.heads}, "
                f"{self.dim} and {self.most}; they must be positive"
            )


class Indexer(nn.Module):
    """The index of a layer; the names are the checkpoint's."""

    def __init__(self, spec: IndexSpec, width: int, rank: int, rotary: RotarySpec) -> None:
        if rotary.dim > spec.dim:
            raise FormatError(
                f"config.json: qk_rope_head_dim {rotary.dim} is more than index_head_dim {spec.dim}"
            )
        self.spec, self.rotary = spec, rotary
        self.wq_b = nn.Linear(rank, spec.heads * spec.dim, bias=False)
        self.wk = nn.Linear(width, spec.dim, bias=False)
        self.k_norm = nn.LayerNorm(spec.dim, eps=spec.eps)
        self.weights_proj = nn.Linear(width, spec.heads, bias=False)

    def keys(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the keys that the cache keeps, (batch, 1, length, dim)."""
        return self._rotated(self.k_norm(self.wk(x)).unsqueeze(1), context)

    def chosen(
        self,
        x: Tensor,
        latent: Tensor,
        keys: Tensor,
        offset: Tensor | int,
        context: AttentionContext,
    ) -> Tensor | None:
        """Which keys each query sees, (batch, 1, length, keys); None if these are all.

        latent: (batch, length, rank), of the queries. keys: (batch, 1, keys, dim), with those of
        the cache; offset: the number of earlier tokens in it.
        """
        spec, (batch, length, _) = self.spec, x.shape
        count = keys.shape[2]
        if count <= spec.most:
            return context.mask
        q = self.wq_b(latent).reshape(batch, length, spec.heads, spec.dim).transpose(1, 2)
        scores = (self._rotated(q, context) @ keys.to(x.dtype).transpose(2, 3)).relu()
        # (batch, length, heads) -> (batch, heads, length, 1)
        weights = (self.weights_proj(x) * (spec.heads * spec.dim) ** -0.5).transpose(1, 2)
        scores = (scores * weights.unsqueeze(-1)).sum(1, keepdim=True)
        last = ops.arange(length, device=x.device).reshape(1, 1, length, 1)
        if not isinstance(offset, int):
            last = last + offset.reshape(-1, 1, 1, 1)
        seen = ops.arange(count, device=x.device) <= last
        if context.mask is not None:
            seen = seen & context.mask
        scores = ops.where(seen, scores, -math.inf)
        least = scores.topk(spec.most, -1)[0][..., -1:]
        return seen & (scores >= least)

    def _rotated(self, y: Tensor, context: AttentionContext) -> Tensor:
        # (batch, heads, length, dim) -> the same
        cos, sin = context.angles[self.rotary]
        pairs = self.spec.interleaved
        pairs = self.rotary.interleaved if pairs is None else pairs
        if self.spec.leading:  # what the angles do not reach stays
            return ops.rope(y, cos, sin, interleaved=pairs)
        plain = self.spec.dim - self.rotary.dim
        turned = ops.rope(y[..., plain:], cos, sin, interleaved=pairs)
        return ops.cat((y[..., :plain], turned), -1)
