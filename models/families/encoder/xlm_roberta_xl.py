"""XLM-RoBERTa-XL (Goyal et al., 2021): RoBERTa, norms before, none of the embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import ROBERTA

ARCHITECTURES = ("XLMRobertaXLModel",)
BASE_PREFIX = "roberta."
HEADS = ROBERTA
NAMES = EncoderNames(
    embedding_norm="",
    attention_norm="attention.self_attn_layer_norm",
    mlp_norm="LayerNorm",
    norm="encoder.LayerNorm",
)


@dataclass
class Config(roberta.Config):
    """The keys of config.json."""

    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    model_type: str = "xlm-roberta-xl"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return replace(roberta.describe(c, pooler), place="before", names=NAMES)


FAMILY = Family(
    model_types=("xlm-roberta-xl",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
