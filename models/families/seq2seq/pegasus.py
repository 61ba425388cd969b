"""PEGASUS (Zhang et al., 2019): sinusoidal positions, normalised before each part."""

from __future__ import annotations

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig as Config
from rushlight.models.layers.seq2seq.fairseq import Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("PegasusForConditionalGeneration", "PegasusModel")

FAMILY = Family(
    model_types=("pegasus",),
    tasks=("summarization", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("before", False, lambda c: PositionSpec("paired")), ARCHITECTURES
    ),
)
