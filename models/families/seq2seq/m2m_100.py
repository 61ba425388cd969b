"""M2M100 (Fan et al., 2020) and NLLB: translation between many languages."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("M2M100ForConditionalGeneration", "M2M100Model")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    activation_function: str = "relu"
    scale_embedding: bool = True
    pad_token_id: int | None = 1


def _positions(c: FairseqConfig) -> PositionSpec:
    return PositionSpec("even", 2, 1 if c.pad_token_id is None else c.pad_token_id)


FAMILY = Family(
    model_types=("m2m_100",),
    tasks=("translation", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(Config, Kind("before", False, _positions), ARCHITECTURES),
)
