"""RoFormer (Su et al., 2021): BERT whose queries and keys are turned by a stored table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("RoFormerModel",)
BASE_PREFIX = "roformer."
HEADS = HeadNames(inner="classifier.dense", text="classifier.out_proj")
NAMES = EncoderNames(angles="encoder.embed_positions")


@dataclass
class Config(BertConfig):
    """The keys of config.json; embedding_size: hidden_size by default."""

    max_position_embeddings: int = 1536
    embedding_size: int | None = None
    rotary_value: bool = False
    model_type: str = "roformer"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(
        c,
        pooler=False,
        absolute=False,
        embedding=c.embedding_size or 0,
        turn_values=c.rotary_value,
        names=NAMES,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    heads = replace(HEADS, inner_act=str(config.get("hidden_act", "gelu")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("roformer",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
