"""ESM C's layers (EvolutionaryScale, 2024): norms of queries and keys, scaled sums."""

from __future__ import annotations

from dataclasses import replace

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.mlp import run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm

_NORMS = ("self_attn.q_norm", "self_attn.k_norm", "")


class NormedQueriesLayer(EncoderLayer):
    """A layer with a norm of all features of q, and of k; `share`: of each part in the sum."""

    def __init__(self, spec: EncoderSpec, share: float) -> None:
        super().__init__(spec)
        self.share = share
        for name in _NORMS[:2]:
            put(self, name, make_norm(spec.width, replace(spec.norm, bias=False)))

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same."""
        names = self.spec.names
        y = self._attention(self._called(names.attention_norm, x), context, layer)
        x = x + self.dropout(y) * self.share
        y = run_mlp(self, self.mlp_spec, self._called(names.mlp_norm, x))
        out: Tensor = x + self.dropout(y) * self.share
        return out

    def _parts(self, x: Tensor) -> list[Tensor]:
        names, (batch, length, _) = self.spec.names, x.shape
        parts = []
        for name, norm in zip((names.q, names.k, names.v), _NORMS, strict=True):
            y = self._called(name, x)
            y = self._called(norm, y) if norm else y
            parts.append(y.reshape(batch, length, self.spec.heads, -1).transpose(1, 2))
        return parts
