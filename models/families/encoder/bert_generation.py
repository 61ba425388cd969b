"""The encoder of BERT for generation (Rothe et al., 2019): BERT without token types and pooler."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder

ARCHITECTURES = ("BertGenerationEncoder",)
BASE_PREFIX = "bert."


@dataclass
class Config(BertConfig):
    """The keys of config.json; token types, which others share, are not used."""

    model_type: str = "bert-generation"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(c, pooler=False, types=0)


FAMILY = Family(
    model_types=("bert-generation",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX),
)
