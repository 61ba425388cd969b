"""LUKE (Yamada et al., 2020): RoBERTa that was trained with entities beside words.

Texts are read without entities, as in the reference where none are given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import Encoder
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("LukeModel",)
BASE_PREFIX = "luke."
HEADS = HeadNames("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", "gelu")
# Parts of names of what only entities pass.
ENTITIES = (
    "entity_embeddings.",
    "entity_predictions.",
    ".w2e_query.",
    ".e2w_query.",
    ".e2e_query.",
)


@dataclass
class Config(roberta.Config):
    """The keys of config.json."""

    neutral = {
        **roberta.Config.neutral,
        **dict.fromkeys(("entity_vocab_size", "entity_emb_size", "use_entity_aware_attention"), ()),
    }

    model_type: str = "luke"


_build = encoder_builder(Config, roberta.describe, ARCHITECTURES, BASE_PREFIX, HEADS)


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    # The reference ties the head of entities only.
    return _build(config | {"tie_word_embeddings": False}, names)


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether the model does without a tensor: what only entities pass."""
    return any(part in name for part in ENTITIES)


FAMILY = Family(
    model_types=("luke",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    unused=unused,
)
