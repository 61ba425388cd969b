"""K-EXAONE (LG AI Research, 2025): EXAONE 4 with norms before the parts, DeepSeek V3's experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import exaone4
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import CORRECTED, ROUTED, scored
from rushlight.models.layers.building import decoder_builder, sparse_of, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.shared_experts import SHARED, routing_of
from rushlight.models.parts import renamed

ARCHITECTURES = ("ExaoneMoeForCausalLM",)
CORRECTION = "e_score_correction_bias"


@dataclass
class Config(exaone4.Config):
    """The keys of config.json that the model depends on."""

    mlp_layer_types: Any = None
    first_k_dense_replace: int = 1
    moe_intermediate_size: int = 1024
    num_experts: int = 64
    num_experts_per_tok: int = 8
    num_shared_experts: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5
    n_group: int = 1
    topk_group: int = 1
    model_type: str = "exaone_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    always = c.moe_intermediate_size * c.num_shared_experts
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        c.norm_topk_prob,
        MLPSpec(always, c.hidden_act),
        routing=replace(routing_of(c), scale=c.routed_scaling_factor),
        names=SHARED,
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    sparse = sparse_of(
        c.mlp_layer_types, c.num_hidden_layers, lambda i: i >= c.first_k_dense_replace
    )
    spec = with_mlps(exaone4.describe(c), lambda i: experts if sparse[i] else dense)
    return replace(spec, names=DecoderNames())


GGUF = Architecture(
    "exaone_moe",
    "ExaoneMoeForCausalLM",
    keys={
        **{k: v for k, v in ROUTED.items() if k not in ("n_routed_experts", "n_shared_experts")},
        "num_experts": "expert_count",
        "num_shared_experts": "expert_shared_count",
        "sliding_window": "attention.sliding_window",
    },
    mlp=SHARED,
    metadata=scored,
    parts=CORRECTED,
)

FAMILY = Family(
    model_types=("exaone_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed(f"mlp.{CORRECTION}", f"mlp.gate.{CORRECTION}"),
    gguf_types=("exaone-moe",),
    gguf=GGUF,
)
