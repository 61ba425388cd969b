"""The indexer of sparse attention (DeepSeek, 2025): which keys a query attends to.

Narrow heads score all keys, and a query attends to the best ones only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext


@dataclass(frozen=True)
class IndexSpec:
    """`heads` heads of `head` features choose `kept` keys for each query.

    interleaved: the order of the pairs that are rotated. shared: the layer has no heads of its own:
    it reads what an earlier layer chose.
    """

    heads: int
    head: int
    kept: int
    interleaved: bool = False
    shared: bool = False

    def __post_init__(self) -> None:
        if min(self.heads, self.head, self.kept) < 1:
            raise FormatError(
                f"config.json: index_n_heads, index_head_dim and index_topk are {self.heads}, "
                f"{self.head} and {self.kept}; they must be positive"
            )


class Indexer(nn.Module):
    """Keys for the cache, and which of them each query attends to."""

    def __init__(self, spec: IndexSpec, width: int, latent: int) -> None:
        self.spec = spec
        self.wq_b = nn.Linear(latent, spec.heads * spec.head, bias=False)
        self.wk = nn.Linear(width, spec.head, bias=False)
        self.k_norm = nn.LayerNorm(spec.head, eps=1e-6)
        self.weights_proj = nn.Linear(width, spec.heads, bias=False)

    def keys(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """(batch, length, width) -> (batch, 1, length, head)."""
        return self._rotated(self.k_norm(self.wk(x)).unsqueeze(1), angles)

    def chosen(
        self,
        x: Tensor,
        latent: Tensor,
        keys: Tensor,
        angles: tuple[Tensor, Tensor],
        context: AttentionContext,
        offset: Tensor | int,
    ) -> Tensor | None:
        """(batch, 1, length, keys): true where a query attends to a key; None where it is all.

        x: what the layer reads; latent: that of its queries; keys: all of them, (batch, 1, keys,
        head); offset: the number of earlier ones.
        """
        spec, (batch, length, _) = self.spec, x.shape
        count = keys.shape[2]
        if count <= spec.kept:
            return None
        q = self.wq_b(latent).reshape(batch, length, spec.heads, -1).transpose(1, 2)
        q = self._rotated(q, angles).float()
        scores = ops.relu(q @ keys.float().transpose(2, 3) * spec.head**-0.5)
        weights = self.weights_proj(x).float().transpose(1, 2) * spec.heads**-0.5
        scores = (scores * weights.unsqueeze(-1)).sum(1, keepdim=True)
        places = ops.arange(length, device=x.device).unsqueeze(1)
        places = places if isinstance(offset, int) else places + offset.reshape(-1, 1, 1, 1)
        seen = ops.arange(count, device=x.device) <= places
        seen = seen if context.mask is None else seen & context.mask
        scores = ops.where(seen, scores, -math.inf)
        # Equal scores are all chosen; where fewer keys are seen, causality excludes the rest.
        return scores >= scores.topk(spec.kept, -1)[0][..., -1:]

    def _rotated(self, y: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        return ops.rope(y, *angles, interleaved=self.spec.interleaved)
