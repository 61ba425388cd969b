"""Captured functions of sentence encoders: from ids to vectors of texts, tokens and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rushlight.core.functional.network.distance import cosine_similarity
from rushlight.core.functional.reductions import normalize
from rushlight.core.jit.function import jit
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.sentence_modules import expanded, pooled

if TYPE_CHECKING:
    from rushlight.models.sentence import SentenceEncoder

SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


class Way(NamedTuple):
    """How one call embeds: the tokens of its prompt that are not pooled, features that are kept (0:
    all), whether vectors are normalised, the number of its adapter, and a pooling; "": the model's.
    """

    skip: int = 0
    dim: int = 0
    normalize: bool = True
    adapter: int | None = None
    pooling: str = ""


def hidden_of(model: SentenceEncoder, ids: Tensor, mask: Tensor, adapter: int | None) -> Tensor:
    """(batch, length, width) float32, after the steps of tokens' vectors."""
    if model.adapters:
        model.chosen.number = adapter
    try:
        hidden = model.states(ids, mask).float()
    finally:
        if model.adapters:
            model.chosen.number = None
    if model.after is not None:
        hidden = model.after.tokens(hidden)
    elif model.late:
        hidden = model.linear(hidden)
    return hidden


def embedded(model: SentenceEncoder, pooled_: Tensor, way: Way) -> Tensor:
    """The embeddings of pooled vectors (batch, hidden)."""
    out = pooled_ if model.after is None else model.after.texts(pooled_)
    if way.dim:
        out = out[:, : way.dim]
    return normalize(out, dim=-1) if way.normalize else out


@jit
def embeddings(model: SentenceEncoder, ids: Tensor, mask: Tensor, way: Way) -> Tensor:
    """(batch, length) ids and mask -> (batch, hidden), over the positions of the mask."""
    after, pooling = model.after, way.pooling or model.pooling
    if after is not None and after.splade is not None:
        return embedded(model, expanded(model.logits(ids, mask).float(), mask, after.splade), way)
    names = (pooling,) if isinstance(pooling, str) else pooling
    hidden = hidden_of(model, ids, mask, way.adapter)
    return embedded(model, pooled(hidden, mask, names, way.skip), way)


@jit
def token_vectors(model: SentenceEncoder, ids: Tensor, mask: Tensor, adapter: int | None) -> Tensor:
    """(batch, length) ids and mask -> (batch, length, features)."""
    hidden = hidden_of(model, ids, mask, adapter)
    late = model.late if model.after is None else model.after.normalize_tokens
    return normalize(hidden, dim=-1) if late else hidden


@jit
def word_weights(
    model: SentenceEncoder, ids: Tensor, mask: Tensor, splade: tuple[str, int]
) -> Tensor:
    """(batch, length) ids and mask -> (batch, vocab)."""
    return expanded(model.logits(ids, mask).float(), mask, splade)


def similarity_of(a: Tensor, b: Tensor, kind: str) -> Tensor:
    """How alike the rows of a (n, hidden) and b (m, hidden) are by one of SIMILARITIES: (n, m)."""
    a, b = a.float(), b.float()
    if kind == "dot":
        return a @ b.t()
    x, y = a.unsqueeze(1), b.unsqueeze(0)
    if kind == "cosine":
        return cosine_similarity(x, y, -1)
    return -(x - y).norm(1 if kind == "manhattan" else 2, -1)
