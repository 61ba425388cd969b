"""Qwen 1.5's and Qwen2's mixtures of experts (Yang et al., 2024), one expert shared by all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention, sparse_layers
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec

ARCHITECTURES = ("Qwen2MoeForCausalLM",)


@dataclass
class Config(qwen2.Config):
    """The keys of config.json that the model depends on."""

    moe_intermediate_size: int = 1408
    shared_expert_intermediate_size: int = 5632
    num_experts: int = 60
    num_experts_per_tok: int = 4
    norm_topk_prob: bool = False
    decoder_sparse_step: int = 1
    mlp_only_layers: list[Any] | None = None
    qkv_bias: bool = True
    model_type: str = "qwen2_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    always = c.shared_expert_intermediate_size
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        normalized=c.norm_topk_prob,
        shared=MLPSpec(always, c.hidden_act) if always else None,
        shared_gate=True,
    )
    plain = each_attention(qwen2.describe(c), lambda _, a: replace(a, bias=c.qkv_bias))
    return sparse_layers(plain, experts, c.decoder_sparse_step, c.mlp_only_layers)


GGUF = Architecture(
    "qwen2_moe",
    "Qwen2MoeForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    },
)

FAMILY = Family(
    model_types=("qwen2_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("qwen2moe",),
    gguf=GGUF,
)
