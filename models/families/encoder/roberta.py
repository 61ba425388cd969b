"""RoBERTa (Liu et al., 2019), XLM-RoBERTa and CamemBERT: BERT whose positions skip padding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.encoder import jina_v3
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Transform
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import ROBERTA

ARCHITECTURES = ("RobertaModel", "XLMRobertaModel", "CamembertModel")
BASE_PREFIX = "roberta."
HEADS = ROBERTA


@dataclass
class Config(BertConfig):
    """The keys of config.json; the position of a token is pad_token_id + 1 and up."""

    pad_token_id: int = 1


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    first = c.pad_token_id + 1
    if c.max_position_embeddings <= first:
        raise FormatError(
            f"config.json: max_position_embeddings {c.max_position_embeddings} leaves no position "
            f"after pad_token_id {c.pad_token_id}"
        )
    return bert_spec(
        c,
        pooler=pooler,
        context=c.max_position_embeddings - first,
        first=first,
        pad=c.pad_token_id,
    )


_build = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    rotary = config.get("position_embedding_type") == "rotary"
    return jina_v3.build(config, names) if rotary else _build(config, names)


# Files of bert have no rows of positions before the first token's.
GGUF = encoder_architecture(
    "bert",
    "BertModel",
    EncoderNames(),
    keys={
        "layer_norm_eps": "attention.layer_norm_epsilon",
        "max_position_embeddings": "",
    },
    transforms={
        "position_embeddings": Transform(
            lambda t, config: t, lambda t, config: t[config["pad_token_id"] + 1 :]
        )
    },
    folded=("first", "pad"),
)

FAMILY = Family(
    model_types=("roberta", "xlm-roberta", "camembert"),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    gguf_types=("bert/positions",),  # written as bert, and read as one
    gguf=GGUF,
)
