"""A.X K1 (SK Telecom, 2026): DeepSeek V3 with a norm of what the experts give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v3
from rushlight.models.layers.building import decoder_builder, sparse_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.shared_experts import experts_of, routing_of
from rushlight.models.parts import renamed

ARCHITECTURES = ("AXK1ForCausalLM",)


@dataclass
class Config(deepseek_v3.Config):
    """The keys of config.json that the model depends on."""

    first_k_dense_replace: int = 1
    max_position_embeddings: int = 32768
    mlp_layer_types: Any = None
    model_type: str = "axk1"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    first, step = c.first_k_dense_replace, max(c.moe_layer_freq, 1)
    sparse = sparse_of(
        c.mlp_layer_types, c.num_hidden_layers, lambda i: i >= first and i % step == 0
    )
    c.moe_layer_freq = 1
    experts = experts_of(c, routing_of(c))
    experts = replace(experts, norm=NormSpec("rms", c.rms_norm_eps))
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    return with_mlps(deepseek_v3.describe(c), lambda i: experts if sparse[i] else dense)


FAMILY = Family(
    model_types=("axk1",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    parts=renamed("post_mlp_layernorm.weight", "mlp.norm.weight"),
)
