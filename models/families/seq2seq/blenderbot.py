"""Blenderbot (Roller et al., 2020): chats; BART normalised before each part, not the embedding."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("BlenderbotForConditionalGeneration", "BlenderbotModel")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 128
    pad_token_id: int | None = 0
    model_type: str = "blenderbot"
    neutral = {"encoder_no_repeat_ngram_size": ()}  # of a search


FAMILY = Family(
    model_types=("blenderbot",),
    tasks=("text2text-generation",),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("before", False, lambda c: PositionSpec("learned")), ARCHITECTURES
    ),
)
