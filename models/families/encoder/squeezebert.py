"""SqueezeBERT (Iandola et al., 2020): BERT whose matrices are grouped convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.grouped import GroupedLayer
from rushlight.models.layers.encoder import BlockOf, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("SqueezeBertModel",)
BASE_PREFIX = "transformer."
HEADS = HeadNames()
NAMES = EncoderNames(
    layers="encoder.layers",
    q="attention.query",
    k="attention.key",
    v="attention.value",
    out="post_attention.conv1d",
    attention_norm="post_attention.layernorm",
    up="intermediate.conv1d",
    down="output.conv1d",
    mlp_norm="output.layernorm",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    embedding_size: int = 768
    q_groups: int = 4
    k_groups: int = 4
    v_groups: int = 4
    post_attention_groups: int = 1
    intermediate_groups: int = 4
    output_groups: int = 4
    model_type: str = "squeezebert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("embedding_size", c.embedding_size, (c.hidden_size,))
    groups = (
        c.q_groups,
        c.k_groups,
        c.v_groups,
        c.post_attention_groups,
        c.intermediate_groups,
        c.output_groups,
    )
    return bert_spec(c, pooler=pooler, names=NAMES, layer=BlockOf(GroupedLayer, groups))


FAMILY = Family(
    model_types=("squeezebert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
