"""BERT (Devlin et al., 2018): a bidirectional encoder with absolute positions, post-norm.

Attribute names are the names in the Hugging Face checkpoint, so weights load with no renaming.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.errors import FormatError, LoadError
from rushlight.core.tensor import Tensor
from rushlight.models.config import read_config
from rushlight.models.sentence import SentenceEncoder

BASE_PREFIX = "bert."


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    position_embedding_type: str = "absolute"
    model_type: str = "bert"

    def __post_init__(self) -> None:
        if self.num_attention_heads < 1 or self.hidden_size % self.num_attention_heads:
            raise FormatError(
                f"config.json: hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if self.position_embedding_type != "absolute":
            raise FormatError(
                f"config.json: position_embedding_type {self.position_embedding_type!r} is not "
                'there; only "absolute" is'
            )
        if self.hidden_act not in ACTIVATIONS:
            raise FormatError(
                f"config.json: hidden_act {self.hidden_act!r} is not there; there are: "
                f"{', '.join(ACTIVATIONS)}"
            )


ACTIVATIONS = {
    "gelu": ops.gelu,
    "gelu_new": lambda x: ops.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: ops.gelu(x, approximate="tanh"),
    "relu": ops.relu,
    "silu": ops.silu,
}


class Embeddings(nn.Module):
    """The sum of word, position and segment embeddings, normalised."""

    def __init__(self, config: Config) -> None:
        hidden = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, hidden)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, hidden)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        # (batch, length) -> (batch, length, hidden)
        positions = self.position_embeddings.weight[: ids.shape[1]]
        kinds = self.token_type_embeddings
        segment = kinds.weight[0] if segments is None else kinds(segments)
        total = self.word_embeddings(ids) + segment + positions
        out: Tensor = self.dropout(self.LayerNorm(total))
        return out


class SelfAttention(nn.Module):
    """Every position attends to every other that the mask lets it see."""

    def __init__(self, config: Config) -> None:
        self.heads = config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, hidden = x.shape

        def split(y: Tensor) -> Tensor:
            # (batch, length, hidden) -> (batch, heads, length, head)
            return y.reshape(batch, length, self.heads, hidden // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        return ops.attention(q, k, v, mask=mask).transpose(1, 2).reshape(batch, length, hidden)


class Residual(nn.Module):
    """A projection added to what went in, normalised afterwards."""

    def __init__(self, inside: int, config: Config) -> None:
        self.dense = nn.Linear(inside, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        out: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + before)
        return out


class Attention(nn.Module):
    """Self-attention and its residual."""

    def __init__(self, config: Config) -> None:
        self.self = SelfAttention(config)
        self.output = Residual(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        out: Tensor = self.output(self.self(x, mask), x)
        return out


class Intermediate(nn.Module):
    """The wide layer of the feed-forward part."""

    def __init__(self, config: Config) -> None:
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.dense(x))


class Layer(nn.Module):
    """One block: attention, then the feed-forward part."""

    def __init__(self, config: Config) -> None:
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Residual(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention(x, mask)
        out: Tensor = self.output(self.intermediate(x), x)
        return out


class Encoder(nn.Module):
    """The blocks, one after another."""

    def __init__(self, config: Config) -> None:
        self.layer = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(nn.Module):
    """tanh of a projection of the first position: the summary BERT was trained with."""

    def __init__(self, config: Config) -> None:
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.dense(hidden[:, 0]).tanh()
        return out


class BertModel(SentenceEncoder):
    """The encoder; `pooler` says whether the checkpoint brings the pooler's weights."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = Pooler(config) if pooler else None

    def forward(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (batch, length, hidden) of token ids (batch, length).

        attention_mask (batch, length): false or zero where there is padding. Raises ValueError
        for a text longer than the position embeddings.
        """
        limit = self.config.max_position_embeddings
        if ids.ndim != 2 or ids.shape[1] > limit:
            raise ValueError(f"bert: ids are {ids.shape}; they must be (batch, up to {limit})")
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        out: Tensor = self.encoder(self.embeddings(ids, token_type_ids), mask)
        return out


def build(config: dict[str, Any], names: Collection[str]) -> BertModel:
    """The model that a checkpoint with these tensor names is of, on the meta device."""
    architectures = config.get("architectures") or ["BertModel"]
    if architectures != ["BertModel"]:
        raise LoadError(
            f"config.json: architecture {architectures!r} is not there",
            hint="BertModel is; its weights lie in checkpoints of sentence encoders",
        )
    pooler = any(n.removeprefix(BASE_PREFIX).startswith("pooler.") for n in names)
    return BertModel(read_config(Config, config), pooler or not names)
