"""mBART (Liu et al., 2020; Tang et al., 2020): BART for many languages, normalised before."""

from __future__ import annotations

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig as Config
from rushlight.models.layers.seq2seq.fairseq import Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("MBartForConditionalGeneration", "MBartModel")

FAMILY = Family(
    model_types=("mbart",),
    tasks=("translation", "text2text-generation", "summarization"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("before", True, lambda c: PositionSpec("learned", 2)), ARCHITECTURES
    ),
)
