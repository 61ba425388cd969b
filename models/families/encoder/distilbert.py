"""DistilBERT (Sanh et al., 2019): BERT without token types and pooler, with half of the layers."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.gguf.encoders import RENAMED, encoder_architecture
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("DistilBertModel",)
BASE_PREFIX = "distilbert."
HEADS = HeadNames(
    "vocab_transform",
    "vocab_layer_norm",
    "vocab_projector",
    "vocab_projector.bias",
    inner="pre_classifier",
    inner_act="relu",
)
NAMES = EncoderNames(
    layers="transformer.layer",
    q="attention.q_lin",
    k="attention.k_lin",
    v="attention.v_lin",
    out="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    mlp_norm="output_layer_norm",
)


@dataclass
class Config:
    """The keys of config.json. Sinusoidal positions are stored like learned ones."""

    vocab_size: int
    dim: int
    n_layers: int
    n_heads: int
    hidden_dim: int
    activation: str = "gelu"
    dropout: float = 0.1
    max_position_embeddings: int = 512
    sinusoidal_pos_embds: bool = False
    qa_dropout: float = 0.1
    seq_classif_dropout: float = 0.2
    tie_word_embeddings: bool = True
    model_type: str = "distilbert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return EncoderSpec(
        c.vocab_size,
        c.dim,
        c.max_position_embeddings,
        c.n_layers,
        c.n_heads,
        c.hidden_dim,
        c.activation,
        types=0,
        pooler=False,
        dropout=c.dropout,
        names=NAMES,
    )


GGUF = encoder_architecture(
    "bert",
    "BertModel",
    NAMES,
    keys={},
    metadata=lambda model: {"attention.layer_norm_epsilon": model.spec.norm.eps},
    folded=RENAMED,
)

FAMILY = Family(
    model_types=("distilbert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
    gguf_types=("bert/half",),  # written as bert, and read as one
    gguf=GGUF,
)
