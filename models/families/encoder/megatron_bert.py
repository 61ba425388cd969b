"""Megatron-BERT (Shoeybi et al., 2019): BERT with the norms before, and none of the embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("MegatronBertModel",)
BASE_PREFIX = "bert."
HEADS = HeadNames()
NAMES = EncoderNames(
    embedding_norm="", attention_norm="attention.ln", mlp_norm="ln", norm="encoder.ln"
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    model_type: str = "megatron-bert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(c, pooler=pooler, place="before", names=NAMES)


FAMILY = Family(
    model_types=("megatron-bert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
