"""Splinter (Ram et al., 2021): BERT whose answers are found by a token that stands for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import checked
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.answers import QuestionAnswers
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("SplinterModel",)
BASE_PREFIX = "splinter."
HEADS = HeadNames(decoder="", text="", token="", ends="splinter_qass")
QUESTION = "question_token_id"


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    neutral = {**BertConfig.neutral, QUESTION: ()}  # `build` reads it

    model_type: str = "splinter"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(c, pooler=False)


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    token = checked(f"config.json: {QUESTION}", QUESTION, "int", config.get(QUESTION, 104))
    heads = replace(HEADS, answers=lambda spec: QuestionAnswers(spec.width, token))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("splinter",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
