"""BigBird (Zaheer et al., 2020): BERT for long texts; here with full attention, as the reference
has it up to the length at which blocks begin to pay.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("BigBirdModel",)
BASE_PREFIX = "bert."
# The reference's head of answers hides the question, and has a layer of its own.
HEADS = HeadNames(inner="classifier.dense", text="classifier.out_proj", token="classifier", ends="")


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    hidden_act: str = "gelu_new"
    max_position_embeddings: int = 4096
    attention_type: str = "block_sparse"
    block_size: int = 64
    num_random_blocks: int = 3
    use_bias: bool = True
    rescale_embeddings: bool = False
    model_type: str = "big_bird"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for.

    Texts of "block_sparse" are as long as the reference attends to every place.
    """
    choose("attention_type", c.attention_type, ("block_sparse", "original_full"))
    full = (5 + 2 * c.num_random_blocks) * c.block_size
    sparse = c.attention_type == "block_sparse"
    spec = bert_spec(
        c,
        pooler=pooler,
        plain_pooler=True,
        words_scale=c.hidden_size**0.5 if c.rescale_embeddings else 1.0,
        biases=(c.use_bias, True, True, True),
    )
    return replace(spec, limit=full if sparse else None)


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    heads = replace(HEADS, inner_act=str(config.get("hidden_act", "gelu_new")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("big_bird",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
