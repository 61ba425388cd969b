"""RemBERT (Chung et al., 2020): BERT with narrow embeddings, and a wide head of its own weights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import checked
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("RemBertModel",)
BASE_PREFIX = "rembert."
_HEAD = "cls.predictions."
HEADS = HeadNames(_HEAD + "dense", _HEAD + "LayerNorm", _HEAD + "decoder", _HEAD + "decoder.bias")
NAMES = EncoderNames(projection="encoder.embedding_hidden_mapping_in")
OUTPUT = "output_embedding_size"


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    neutral = {**BertConfig.neutral, "classifier_dropout_prob": ()}

    hidden_dropout_prob: float = 0.0
    input_embedding_size: int = 256
    output_embedding_size: int = 1664
    tie_word_embeddings: bool = False
    model_type: str = "rembert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(c, pooler=pooler, embedding=c.input_embedding_size, project=True, names=NAMES)


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    size = checked(f"config.json: {OUTPUT}", OUTPUT, "int", config.get(OUTPUT, 1664))
    heads = replace(HEADS, size=size)
    config = config | {"tie_word_embeddings": False}  # the reference ties nothing
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("rembert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
