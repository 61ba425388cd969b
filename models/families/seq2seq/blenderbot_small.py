"""Blenderbot 90M (Roller et al., 2020): BART whose decoder normalises before it adds positions."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 512
    pad_token_id: int | None = 0
    model_type: str = "blenderbot-small"


FAMILY = Family(
    model_types=("blenderbot-small",),
    tasks=("text2text-generation",),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config,
        Kind("after", True, lambda c: PositionSpec("learned"), positions_last=True),
        ARCHITECTURES,
    ),
)
