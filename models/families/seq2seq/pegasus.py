"""PEGASUS (Zhang et al., 2019): sinusoidal positions, normalised before each part."""

from __future__ import annotations

from rushlight.models.layers.seq2seq.fairseq import FairseqConfig as Config
from rushlight.models.layers.seq2seq.fairseq import Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

MODEL_TYPES = ("pegasus",)
TASKS = ("summarization", "text2text-generation")
ARCHITECTURES = ("PegasusForConditionalGeneration", "PegasusModel")
BASE_PREFIX = "model."

build = fairseq_builder(
    Config, Kind("before", False, lambda c: PositionSpec("paired")), ARCHITECTURES
)
