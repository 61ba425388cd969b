"""Sarvam 30B (Sarvam AI, 2026): GLM-4.5 with one matrix for q, k and v, and whole heads rotated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import glm4_moe
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.shared_experts import experts_of, predicts_further, routing_of

ARCHITECTURES = ("Glm4MoeForCausalLM", "SarvamMoEForCausalLM")
NAMES = DecoderNames(embedding="word_embeddings", attention="attention")
INSIDE = AttentionNames(
    qkv="query_key_value", out="dense", q_norm="query_layernorm", k_norm="key_layernorm"
)


@dataclass
class Config(glm4_moe.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 4
    head_dim: int | None = 64
    rms_norm_eps: float = 1e-6
    rope_theta: float = 8000000.0
    use_qk_norm: bool = True
    num_experts_per_tok: int = 6
    moe_intermediate_size: int = 1024
    routed_scaling_factor: float = 2.5
    model_type: str = "sarvam_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        rotary = rotary_of(vars(c), a.head_dim)
        return replace(a, fused="stacked", rotary=rotary, names=INSIDE)

    routing = replace(routing_of(c), correction="expert_bias")
    experts = experts_of(c, routing)
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    spec = with_mlps(
        each_attention(glm4_moe.describe(c), changed),
        lambda i: dense if i < c.first_k_dense_replace else experts,
    )
    return replace(spec, names=NAMES)


FAMILY = Family(
    model_types=("sarvam_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=predicts_further,
)
