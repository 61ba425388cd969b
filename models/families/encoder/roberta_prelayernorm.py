"""RoBERTa with the norms before each part (Ott et al., 2019, as fairseq's option)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import ROBERTA

ARCHITECTURES = ("RobertaPreLayerNormModel",)
BASE_PREFIX = "roberta_prelayernorm."
HEADS = ROBERTA
NAMES = EncoderNames(
    attention_norm="attention.LayerNorm", mlp_norm="intermediate.LayerNorm", norm="LayerNorm"
)


@dataclass
class Config(roberta.Config):
    """The keys of config.json."""

    model_type: str = "roberta-prelayernorm"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return replace(roberta.describe(c, pooler), place="before", names=NAMES)


FAMILY = Family(
    model_types=("roberta-prelayernorm",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
