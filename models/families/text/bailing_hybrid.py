"""Ling 3 (Ling Team, 2026): Kimi Linear's layers with whole gates, bounded decays, positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v3
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.blocks.split_delta import SplitDeltaSpec
from rushlight.models.layers.building import LINEAR, decoder_builder, kinds_of, sparse_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.shared_experts import predicts_further

ARCHITECTURES = ("BailingHybridForCausalLM",)
NAMES = DecoderNames(embedding="word_embeddings", attention="attention")


@dataclass
class Config(deepseek_v3.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"num_mtp_layers": (), "mtp_loss_scaling_factor": ()}  # none of these are used

    first_k_dense_replace: int = 2
    q_lora_rank: int | None = None
    n_shared_experts: int | None = 1
    num_local_experts: int = 512
    moe_intermediate_size: int = 768
    rope_theta: float = 6e6
    max_position_embeddings: int = 262144
    head_dim: int | None = 128
    short_conv_kernel_size: int = 4
    layer_group_size: int = 6
    kda_safe_gate: bool = True
    kda_lower_bound: float = -5.0
    layer_types: Any = None
    mlp_layer_types: Any = None
    linear_head_dim: int | None = None
    linear_num_heads: int | None = None
    linear_conv_kernel_dim: int | None = None
    model_type: str = "bailing_hybrid"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for.

    Files of the reference have in `head_dim` what is rotated; `linear_head_dim` is the size of a
    head of the linear layers then.
    """
    count, group = c.num_hidden_layers, max(c.layer_group_size, 1)
    linear = kinds_of(c.layer_types, count, lambda i: (i + 1) % group != 0, LINEAR)
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: i >= c.first_k_dense_replace)
    heads = c.linear_num_heads or c.num_attention_heads
    features = c.linear_head_dim or c.head_dim or 128
    delta = SplitDeltaSpec(
        c.hidden_size,
        heads,
        heads,
        features,
        features,
        c.linear_conv_kernel_dim or c.short_conv_kernel_size,
        c.hidden_act,
        c.rms_norm_eps,
        wide=True,
        least=c.kda_lower_bound if c.kda_safe_gate else None,
        out="dense",
    )
    c.n_routed_experts = c.num_local_experts
    plain = deepseek_v3.describe(replace(c, first_k_dense_replace=0))
    dense = MLPSpec(c.intermediate_size, c.hidden_act)

    def changed(layer: LayerSpec, is_linear: bool, is_sparse: bool) -> LayerSpec:
        assert isinstance(layer.attention, LatentSpec) and isinstance(layer.mlp, ExpertsSpec)
        gated = replace(layer.attention, gate="g_proj", gate_heads=True, out="dense")
        routing = replace(layer.mlp.routing, correction="expert_bias")
        return replace(
            layer,
            attention=delta if is_linear else gated,
            mlp=replace(layer.mlp, routing=routing) if is_sparse else dense,
        )

    layers = tuple(map(changed, plain.layers, linear, sparse))
    # The reference never ties the head.
    return replace(plain, layers=layers, names=NAMES, tied=False)


FAMILY = Family(
    model_types=("bailing_hybrid",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=predicts_further,
)
