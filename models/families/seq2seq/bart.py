"""BART (Lewis et al., 2019): learned positions, normalised after each part."""

from __future__ import annotations

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig as Config
from rushlight.models.layers.seq2seq.fairseq import Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("BartForConditionalGeneration", "BartModel")

FAMILY = Family(
    model_types=("bart",),
    tasks=("summarization", "text2text-generation", "translation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("after", True, lambda c: PositionSpec("learned", 2)), ARCHITECTURES
    ),
)
