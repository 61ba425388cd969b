"""PLM (Deng et al., 2025): DeepSeek's latent attention, and a squared ReLU without a gate."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v2
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("PLMForCausalLM",)


@dataclass
class Config(deepseek_v2.Config):
    """The keys of config.json that the model depends on."""

    hidden_act: str = "relu2"
    q_lora_rank: int | None = None
    model_type: str = "plm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.first_k_dense_replace = c.num_hidden_layers
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False)
    return with_mlps(deepseek_v2.describe(c), lambda _: mlp)


FAMILY = Family(
    model_types=("plm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
