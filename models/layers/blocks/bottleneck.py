"""MobileBERT's parts (Sun et al., 2020): layers in a bottleneck, words with neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm

# The reference leaves two of the norms at this.
_EPS = 1e-5


@dataclass(frozen=True)
class BottleneckSpec:
    """size: of the bottleneck, 0 for none. shared: queries and keys have a bottleneck of their own.
    everywhere: q, k and v are all made of the layer's bottleneck. networks: feed-forward parts.
    neighbours: words are made of three embeddings.
    """

    size: int = 128
    shared: bool = True
    everywhere: bool = False
    networks: int = 4
    neighbours: bool = True


class Narrow(nn.Module):
    """A projection to another width, and a norm."""

    def __init__(self, inside: int, outside: int, norm: NormSpec) -> None:
        self.dense, self.LayerNorm = nn.Linear(inside, outside), make_norm(outside, norm)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., inside) -> (..., outside); the residual is added before the norm."""
        y: Tensor = self.dense(x)
        out: Tensor = self.LayerNorm(y if residual is None else y + residual)
        return out


class BottleneckLayer(nn.Module):
    """Attention and feed-forward parts of `size` features, between projections of all."""

    def __init__(self, spec: EncoderSpec, narrow: BottleneckSpec) -> None:
        self.spec, self.narrow, names = spec, narrow, spec.names
        width, size, norm = spec.width, narrow.size or spec.width, spec.norm
        self.act = ACTIVATIONS[spec.activation]
        loose = replace(norm, eps=_EPS)
        for name, inside in ((names.q, size), (names.k, size), (names.v, width)):
            wide = size if narrow.everywhere else inside
            put(self, name, nn.Linear(wide, size))
        put(self, "attention.output", Narrow(size, size, norm))
        put(self, names.up, nn.Linear(size, spec.inner))
        put(self, "output", Narrow(spec.inner, size, loose))
        if narrow.size:
            put(self, "output.bottleneck", Narrow(size, width, norm))
            put(self, "bottleneck.input", Narrow(width, size, norm))
            if narrow.shared:
                put(self, "bottleneck.attention", Narrow(width, size, norm))
        for i in range(narrow.networks - 1):
            put(self, f"ffn.{i}.intermediate.dense", nn.Linear(size, spec.inner))
            put(self, f"ffn.{i}.output", Narrow(spec.inner, size, norm))

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same."""
        narrow, names = self.narrow, self.spec.names
        both, values, residual = x, x, x
        if narrow.size:
            residual = self._called("bottleneck.input", x)
            if narrow.everywhere:
                both, values = residual, residual
            elif narrow.shared:
                both = self._called("bottleneck.attention", x)
        parts = zip((names.q, names.k, names.v), (both, both, values), strict=True)
        batch, length = x.shape[:2]
        q, k, v = (
            self._called(name, y).reshape(batch, length, self.spec.heads, -1).transpose(1, 2)
            for name, y in parts
        )
        mixed = ops.attention(q, k, v, mask=context.mask).transpose(1, 2)
        y = self._called("attention.output", mixed.reshape(batch, length, -1), residual)
        for i in range(narrow.networks - 1):
            inner = self.act(self._called(f"ffn.{i}.intermediate.dense", y))
            y = self._called(f"ffn.{i}.output", inner, y)
        y = self._called("output", self.act(self._called(names.up, y)), y)
        return self._called("output.bottleneck", y, x) if narrow.size else y

    def _called(self, name: str, *x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(name)(*x)
        return out


class NeighbourEmbeddings(nn.Module):
    """A word's embedding beside those of the words after and before it, projected to the width."""

    def __init__(self, spec: EncoderSpec, narrow: BottleneckSpec) -> None:
        inside = spec.embedding or spec.width
        self.neighbours, self.plain = narrow.neighbours, inside == spec.width
        self.word_embeddings = nn.Embedding(spec.vocab, inside)
        self.position_embeddings = nn.Embedding(spec.context, spec.width)
        self.token_type_embeddings = nn.Embedding(spec.types, spec.width)
        wide = inside * (3 if narrow.neighbours else 1)
        self.embedding_transformation = nn.Linear(wide, spec.width)
        self.LayerNorm = make_norm(spec.width, replace(spec.norm, eps=_EPS))

    def forward(self, ids: Tensor, types: Tensor | None, seen: Tensor | None) -> Tensor:
        """(batch, length) -> (batch, length, width); padding is no neighbour."""
        x: Tensor = self.word_embeddings(ids)
        if self.neighbours:
            x = x if seen is None else x * seen.unsqueeze(-1).to(x.dtype)
            none = x[:, :1] * 0
            x = ops.cat([ops.cat([x[:, 1:], none], 1), x, ops.cat([none, x[:, :-1]], 1)], 2)
        if self.neighbours or not self.plain:
            x = self.embedding_transformation(x)
        positions: Any = self.position_embeddings.weight
        kinds: Any = self.token_type_embeddings
        x = x + positions[: ids.shape[1]] + (kinds.weight[0] if types is None else kinds(types))
        out: Tensor = self.LayerNorm(x)
        return out
