"""PLBART (Ahmad et al., 2021): BART for programs and their descriptions."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("PLBartForConditionalGeneration", "PLBartModel")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    scale_embedding: bool = True
    pad_token_id: int | None = 1
    model_type: str = "plbart"


FAMILY = Family(
    model_types=("plbart",),
    tasks=("text2text-generation", "translation", "summarization"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("after", True, lambda c: PositionSpec("learned", 2)), ARCHITECTURES
    ),
)
