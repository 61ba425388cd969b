"""DeepSeek V2 (DeepSeek, 2024): latent attention, experts in groups, shared experts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.latent import latent
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import magnified, rotary_of
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.layers.shared_experts import SHARED, experts_of

ARCHITECTURES = ("DeepseekV2ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    first_k_dense_replace: int = 0
    kv_lora_rank: int = 512
    q_lora_rank: int | None = 1536
    n_group: int | None = None
    topk_group: int | None = None
    topk_method: str | None = "greedy"
    n_routed_experts: int = 64
    n_shared_experts: int | None = 2
    num_experts_per_tok: int = 6
    moe_intermediate_size: int = 1407
    moe_layer_freq: int = 1
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    routed_scaling_factor: float = 1.0
    norm_topk_prob: bool | None = False  # without effect in transformers
    scoring_func: str = "softmax"
    rope_interleave: bool | None = True
    model_type: str = "deepseek_v2"


def describe_with(c: Config, routing: RoutingSpec) -> DecoderSpec:
    """The description of the decoder that a configuration asks for, with experts routed so."""
    choose("moe_layer_freq", c.moe_layer_freq, (1,))
    choose("mlp_bias", c.mlp_bias, (False,))
    c.head_dim, rotated = None, c.qk_rope_head_dim
    rotary = replace(rotary_of(vars(c), rotated), interleaved=bool(c.rope_interleave))
    attention = LatentSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.kv_lora_rank,
        c.q_lora_rank,
        c.qk_nope_head_dim,
        c.v_head_dim,
        rotary,
        magnified(vars(c)) / math.sqrt(max(c.qk_nope_head_dim + rotated, 1)),
        c.attention_bias,
    )
    experts = experts_of(c, routing)
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    layers = (LayerSpec(attention, dense, rotary=rotary),) * c.num_hidden_layers
    return with_mlps(
        replace(llama.describe(c), layers=layers),
        lambda i: dense if i < c.first_k_dense_replace else experts,
    )


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for.

    "group_limited_sum" is of GGUF: llama.cpp chooses groups by the sum of their two best scores.
    """
    choose("scoring_func", c.scoring_func, ("softmax",))
    choose("topk_method", c.topk_method, ("greedy", "group_limited_greedy", "group_limited_sum"))
    groups = 1 if c.topk_method == "greedy" else c.n_group or 1
    best = 2 if c.topk_method == "group_limited_sum" else 1
    return describe_with(
        c, RoutingSpec(normalized=False, groups=groups, kept=c.topk_group or 1, best=best)
    )


FAMILY = Family(
    model_types=("deepseek_v2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    gguf_types=("deepseek2",),
    gguf=latent("deepseek_v2", "DeepseekV2ForCausalLM", SHARED, "softmax"),
)
