"""BART (Lewis et al., 2019): learned positions, normalised after each part."""

from __future__ import annotations

from rushlight.models.layers.seq2seq.fairseq import FairseqConfig as Config
from rushlight.models.layers.seq2seq.fairseq import Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

MODEL_TYPES = ("bart",)
TASKS = ("summarization", "text2text-generation", "translation")
ARCHITECTURES = ("BartForConditionalGeneration", "BartModel")
BASE_PREFIX = "model."

build = fairseq_builder(
    Config, Kind("after", True, lambda c: PositionSpec("learned", 2)), ARCHITECTURES
)
