"""MiMo V2 Flash (Xiaomi, 2025): sinks in layers with windows, narrow values, sigmoid experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import Architecture, listed
from rushlight.models.gguf.experts import CORRECTED, scored
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


def adjust(c: dict[str, Any]) -> None:
    """A file's windows, heads of keys, layers without experts, and positions of each kind."""
    windows.adjust_kinds(c)
    heads = listed("attention.head_count_kv", c.get("each_kv"), int, [])
    full = [n for n, kind in zip(heads, c["layer_types"], strict=False) if kind == FULL]
    c["num_key_value_heads"] = full[0] if full else max(heads, default=2) // 2
    routed = [f"model.layers.{i}.mlp.gate.weight" for i in range(c["num_hidden_layers"])]
    c["mlp_layer_types"] = ["sparse" if name in c["names"] else "dense" for name in routed]
    c.setdefault("attention_value_scale", None)


def tell(model: Any) -> dict[str, Any]:
    """Of layers: windows, heads of keys, positions; of experts."""
    layers = [layer.attention for layer in model.spec.layers]
    scale = layers[0].value_scale
    told = windows.tell_windows(model) | windows.tell_bases(model) | scored(model)
    return told | {
        "attention.head_count_kv": np.array([a.kv_heads for a in layers], np.int32),
        "attention.value_length": layers[0].value_dim,
        "attention.sliding_window": np.uint32(
            next((a.window for a in layers if a.window is not None), 0)
        ),
        **({"attention.value_scale": scale} if scale != 1 else {}),
    }


GGUF = Architecture(
    "mimo_v2_flash",
    "MiMoV2FlashForCausalLM",
    keys={
        **windows.KEYS,
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_key_value_heads": "",
        "each_kv": "attention.head_count_kv",
        "v_head_dim": "attention.value_length",
        "attention_value_scale": "attention.value_scale",
        "n_routed_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "routed_scaling_factor": "expert_weights_scale",
        "rotated": "rope.dimension_count",
        "swa_theta": "rope.freq_base_swa",
    },
    adjust=adjust,
    metadata=tell,
    parts=CORRECTED | {"blk.{}.attn_sinks.weight": "model.layers.{}.self_attn.sinks"},
)

FAMILY = Family(
    model_types=("mimo_v2_flash",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed("self_attn.attention_sink_bias", "self_attn.sinks"),
    gguf_types=("mimo2",),
    gguf=GGUF,
)
