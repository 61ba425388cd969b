"""Qwen3's mixtures of experts (Yang et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen3
from rushlight.models.gguf.architecture import Architecture, by_sections
from rushlight.models.layers.building import decoder_builder, sparse_layers
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec

ARCHITECTURES = ("Qwen3MoeForCausalLM",)


@dataclass
class Config(qwen3.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = None
    moe_intermediate_size: int = 768
    num_experts: int = 128
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = False
    decoder_sparse_step: int = 1
    mlp_only_layers: list[Any] | None = None
    model_type: str = "qwen3_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        normalized=c.norm_topk_prob,
    )
    return sparse_layers(qwen3.describe(c), experts, c.decoder_sparse_step, c.mlp_only_layers)


GGUF = Architecture(
    "qwen3_moe",
    "Qwen3MoeForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
    },
    fixed={"norm_topk_prob": True},
)

FAMILY = Family(
    model_types=("qwen3_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("qwen3moe", "qwen3vlmoe"),
    gguf=GGUF,
    gguf_others={"qwen3vlmoe": by_sections(GGUF)},
)
