"""Qwen3.5's mixtures of experts (Qwen Team, 2026): its layers, with Qwen2's experts in each."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen3_5_text
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec

ARCHITECTURES = ("Qwen3_5MoeForCausalLM",)


@dataclass
class Config(qwen3_5_text.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: int = field(default=0, kw_only=True)  # all layers have experts
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts: int = 256
    num_experts_per_tok: int = 8
    model_type: str = "qwen3_5_moe_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        shared=MLPSpec(c.shared_expert_intermediate_size, c.hidden_act),
        shared_gate=True,
    )
    return with_mlps(qwen3_5_text.describe(c), lambda i: experts)


FAMILY = Family(
    model_types=("qwen3_5_moe_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=qwen3_5_text.unused,
    gguf_types=("qwen35moe",),
    gguf=qwen3_5_text.gguf(
        "qwen3_5_moe_text",
        ARCHITECTURES[0],
        {
            "num_experts": "expert_count",
            "num_experts_per_tok": "expert_used_count",
            "moe_intermediate_size": "expert_feed_forward_length",
            "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
        },
    ),
)
