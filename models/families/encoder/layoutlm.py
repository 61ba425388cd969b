"""LayoutLM (Xu et al., 2019): BERT with embeddings of each word's box on a page; `bbox`, if any."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.inputs import BoxEmbeddings
from rushlight.models.layers.encoder import BlockOf, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("LayoutLMModel",)
BASE_PREFIX = "layoutlm."
HEADS = HeadNames()


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    max_2d_position_embeddings: int = 1024
    model_type: str = "layoutlm"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    places = c.max_2d_position_embeddings
    return bert_spec(c, pooler=pooler, input=BlockOf(BoxEmbeddings, places))


FAMILY = Family(
    model_types=("layoutlm",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
