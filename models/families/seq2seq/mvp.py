"""MVP (Tang et al., 2022): BART trained on many tasks, with prompts of each layer if configured."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec

ARCHITECTURES = ("MvpForConditionalGeneration", "MvpModel")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    use_prompt: bool = False
    prompt_length: int = 100
    prompt_mid_dim: int = 800
    pad_token_id: int | None = 1
    model_type: str = "mvp"


FAMILY = Family(
    model_types=("mvp",),
    tasks=("text2text-generation", "summarization"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("after", True, lambda c: PositionSpec("learned", 2)), ARCHITECTURES
    ),
)
