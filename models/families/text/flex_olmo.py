"""FlexOlmo (Shi et al., 2025): OLMo 2 with experts that were trained apart from one another."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.text import olmo2
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec

ARCHITECTURES = ("FlexOlmoForCausalLM",)


@dataclass
class Config(olmo2.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 4096
    rope_theta: float = 500000.0
    num_experts: int = 7
    num_experts_per_tok: int = 5
    norm_topk_prob: bool = False
    model_type: str = "flex_olmo"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        normalized=c.norm_topk_prob,
    )
    return with_mlps(olmo2.describe(c), lambda _: experts)


FAMILY = Family(
    model_types=("flex_olmo",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
