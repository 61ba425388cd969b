"""MiMo V2 Flash (Xiaomi, 2025): sinks in layers with windows, narrow values, sigmoid experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
    sparse_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind
from rushlight.models.layers.shared_experts import experts_of, routing_of
from rushlight.models.parts import renamed

ARCHITECTURES = ("MiMoV2FlashForCausalLM",)
POSITIONS = {
    kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.334}
    for kind, theta in ((FULL, 5000000.0), (SLIDING, 10000.0))
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 4
    head_dim: int | None = 192
    v_head_dim: int = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    partial_rotary_factor: float | None = None
    sliding_window: int = 129
    sliding_window_size: int | None = None
    layer_types: Any = None
    mlp_layer_types: Any = None
    attention_value_scale: float | None = 0.707
    moe_intermediate_size: int = 2048
    num_experts_per_tok: int = 8
    n_routed_experts: int = 256
    n_shared_experts: int = 0  # there are none
    routed_scaling_factor: float | None = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    model_type: str = "mimo_v2_flash"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count, c.rope_parameters = c.num_hidden_layers, c.rope_parameters or POSITIONS
    within = kinds_of(c.layer_types, count, lambda i: i > 0 and (i + 1) % 6 != 0)
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: i > 0)
    if c.routed_scaling_factor is None:
        c.routed_scaling_factor = 1.0
    window = c.sliding_window if c.sliding_window_size is None else c.sliding_window_size + 1

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        near = within[layer]
        return replace(
            a,
            kv_heads=a.kv_heads * (1 + near),
            value_dim=c.v_head_dim,
            value_scale=1.0 if c.attention_value_scale is None else c.attention_value_scale,
            out_bias=False,
            rotary=rotary_of_kind(vars(c), a.head_dim, SLIDING if near else FULL, None),
            window=window if near else None,
            sinks=near,
        )

    plain = llama.describe(replace(c, rope_parameters=None, rope_scaling=None))
    experts = experts_of(c, routing_of(c))
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    return with_mlps(each_attention(plain, changed), lambda i: experts if sparse[i] else dense)


FAMILY = Family(
    model_types=("mimo_v2_flash",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed("self_attn.attention_sink_bias", "self_attn.sinks"),
)
