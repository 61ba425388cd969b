"""MPNet (Song et al., 2020): positions that skip padding (token 1), a bias by distance."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import ROBERTA

ARCHITECTURES = ("MPNetModel",)
BASE_PREFIX = "mpnet."
HEADS = ROBERTA
NAMES = EncoderNames(
    q="attention.attn.q",
    k="attention.attn.k",
    v="attention.attn.v",
    out="attention.attn.o",
    attention_norm="attention.LayerNorm",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    relative_attention_num_buckets: int = 32


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("relative_attention_num_buckets", c.relative_attention_num_buckets, (32,))
    return bert_spec(
        c,
        pooler=pooler,
        types=0,
        context=max(c.max_position_embeddings - 2, 1),
        first=2,
        pad=1,
        buckets=c.relative_attention_num_buckets,
        names=NAMES,
    )


FAMILY = Family(
    model_types=("mpnet",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
