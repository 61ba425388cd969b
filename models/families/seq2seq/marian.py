"""Marian (Junczys-Dowmunt et al., 2018): OPUS-MT's translators, with sinusoidal positions."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("MarianMTModel", "MarianModel")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    decoder_vocab_size: int | None = None
    share_encoder_decoder_embeddings: bool = True


FAMILY = Family(
    model_types=("marian",),
    tasks=("translation", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("after", False, lambda c: PositionSpec("paired")), ARCHITECTURES
    ),
)
