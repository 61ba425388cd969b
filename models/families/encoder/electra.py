"""ELECTRA (Clark et al., 2020): BERT with narrow embeddings, trained as a discriminator."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("ElectraModel",)
BASE_PREFIX = "electra."
HEADS = HeadNames(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head",
    "generator_lm_head.bias",
    "gelu",
    "classifier.dense",
    "gelu",
    "classifier.out_proj",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    embedding_size: int = 128


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(c, pooler=False, embedding=c.embedding_size)


FAMILY = Family(
    model_types=("electra",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
