"""The encoder skeleton: a bidirectional encoder with absolute positions, by a description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.sentence import SentenceEncoder


@dataclass(frozen=True)
class EncoderNames:
    """The checkpoint's names, as paths: of the model, and from `q` to `mlp_norm` of a layer."""

    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"
    types: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    layers: str = "encoder.layer"
    q: str = "attention.self.query"
    k: str = "attention.self.key"
    v: str = "attention.self.value"
    out: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    mlp_norm: str = "output.LayerNorm"
    norm: str = "encoder.norm"
    pooler: str = "pooler"


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder `width` features wide, for `context` tokens with `types` token types (0: none).

    place: "after" normalises the sum of each residual, "before" the input of each part, with a
    final norm. dropout: of each part's output, in training.
    """

    vocab: int
    width: int
    context: int
    layers: int
    heads: int
    inner: int
    activation: str = "gelu"
    norm: NormSpec = NormSpec("layer", 1e-12)
    place: Literal["before", "after"] = "after"
    types: int = 2
    pooler: bool = True
    dropout: float = 0.0
    names: EncoderNames = EncoderNames()

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise FormatError(
                f"config.json: hidden_size {self.width} is not a multiple of "
                f"num_attention_heads {self.heads}"
            )


class EncoderLayer(nn.Module):
    """Self-attention of all positions, and a feed-forward part."""

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec, names, width = spec, spec.names, spec.width
        for name in (names.q, names.k, names.v, names.out):
            put(self, name, nn.Linear(width, width))
        put(self, names.attention_norm, make_norm(width, spec.norm))
        put(self, names.up, nn.Linear(width, spec.inner))
        put(self, names.down, nn.Linear(spec.inner, width))
        put(self, names.mlp_norm, make_norm(width, spec.norm))
        self.activation, self.dropout = ACTIVATIONS[spec.activation], nn.Dropout(spec.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, length, width) -> the same."""
        x = self._added(x, self._attention, self.spec.names.attention_norm, mask)
        return self._added(x, self._mlp, self.spec.names.mlp_norm, None)

    def _added(self, x: Tensor, part: Any, norm: str, mask: Tensor | None) -> Tensor:
        before = self.spec.place == "before"
        y = self.dropout(part(self._apply(norm, x) if before else x, mask))
        return x + y if before else self._apply(norm, y + x)

    def _attention(self, x: Tensor, mask: Tensor | None) -> Tensor:
        names, (batch, length, width) = self.spec.names, x.shape

        def split(name: str) -> Tensor:
            # (batch, length, width) -> (batch, heads, length, head)
            return self._apply(name, x).reshape(batch, length, self.spec.heads, -1).transpose(1, 2)

        q, k, v = split(names.q), split(names.k), split(names.v)
        y = ops.attention(q, k, v, mask=mask).transpose(1, 2).reshape(batch, length, width)
        return self._apply(names.out, y)

    def _mlp(self, x: Tensor, mask: Tensor | None) -> Tensor:
        names = self.spec.names
        return self._apply(names.down, self.activation(self._apply(names.up, x)))

    def _apply(self, name: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(name)(x)
        return out


class Pooler(nn.Module):
    """tanh of a projection of the first position: the text's summary in BERT's training."""

    def __init__(self, width: int) -> None:
        self.dense = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, length, width) -> (batch, width)."""
        out: Tensor = self.dense(hidden[:, 0]).tanh()
        return out


class Encoder(SentenceEncoder):
    """An encoder by `spec`: token ids to hidden states."""

    def __init__(self, config: Any, spec: EncoderSpec) -> None:
        self.config, self.spec, names, width = config, spec, spec.names, spec.width
        self.context_length, self.width = spec.context, width
        put(self, names.words, nn.Embedding(spec.vocab, width))
        put(self, names.positions, nn.Embedding(spec.context, width))
        if spec.types:
            put(self, names.types, nn.Embedding(spec.types, width))
        put(self, names.embedding_norm, make_norm(width, spec.norm))
        put(self, names.layers, nn.ModuleList([EncoderLayer(spec) for _ in range(spec.layers)]))
        if spec.place == "before":
            put(self, names.norm, make_norm(width, spec.norm))
        if spec.pooler:
            put(self, names.pooler, Pooler(width))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (batch, length, width) of token ids (batch, length).

        attention_mask (batch, length): false or zero for padding. Raises ValueError for a text
        longer than the position embeddings.
        """
        limit = self.context_length
        if ids.ndim != 2 or ids.shape[1] > limit:
            kind = self.config.model_type
            raise ValueError(f"{kind}: ids are {ids.shape}; they must be (batch, up to {limit})")
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        x = self._embedded(ids, token_type_ids)
        layers: Any = self.get_submodule(self.spec.names.layers)
        for layer in layers:
            x = layer(x, mask)
        if self.spec.place == "before":
            x = self.get_submodule(self.spec.names.norm)(x)
        return x

    def _embedded(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """The sum of word, type and position embeddings, normalised: (batch, length, width)."""
        names = self.spec.names
        x: Tensor = self.get_submodule(names.words)(ids)
        if self.spec.types:
            kinds: Any = self.get_submodule(names.types)
            x = x + (kinds.weight[0] if types is None else kinds(types))
        positions: Any = self.get_submodule(names.positions)
        x = x + positions.weight[: ids.shape[1]]
        out: Tensor = self.dropout(self.get_submodule(names.embedding_norm)(x))
        return out
