"""GLM-4.7 Flash (GLM Team, 2026): DeepSeek V3 with any layers dense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v3
from rushlight.models.layers.building import decoder_builder, sparse_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.shared_experts import experts_of, predicts_further, routing_of

ARCHITECTURES = ("Glm4MoeLiteForCausalLM",)


@dataclass
class Config(deepseek_v3.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    mlp_layer_types: Any = None
    model_type: str = "glm4_moe_lite"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    experts = experts_of(c, routing_of(c))
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    sparse = sparse_of(c.mlp_layer_types, c.num_hidden_layers, lambda i: i > 0)
    return with_mlps(deepseek_v3.describe(c), lambda i: experts if sparse[i] else dense)


FAMILY = Family(
    model_types=("glm4_moe_lite",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=predicts_further,
)
