"""BERT (Devlin et al., 2018): a bidirectional encoder with absolute positions, post-norm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.config import choose, read_config
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec

MODEL_TYPES = ("bert",)
TASKS = ("feature-extraction",)
ARCHITECTURES = ("BertModel",)
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
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    position_embedding_type: str = "absolute"
    tie_word_embeddings: bool = True  # concerns a head that this model does not have
    model_type: str = "bert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("position_embedding_type", c.position_embedding_type, ("absolute",))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return EncoderSpec(
        c.vocab_size, c.hidden_size, c.max_position_embeddings, c.num_hidden_layers,
        c.num_attention_heads, c.intermediate_size, c.hidden_act,
        NormSpec("layer", c.layer_norm_eps), types=c.type_vocab_size, pooler=pooler,
        dropout=c.hidden_dropout_prob,
    )  # fmt: skip


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    known = read_config(Config, config, ARCHITECTURES)
    pooler = any(n.removeprefix(BASE_PREFIX).startswith("pooler.") for n in names)
    return Encoder(known, describe(known, pooler or not names))
