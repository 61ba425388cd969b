"""Laguna (Poolside, 2026): gates on attention, layers with different heads, sigmoid experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import Architecture, listed
from rushlight.models.gguf.experts import scored
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
    numbers_of,
    sparse_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("LagunaForCausalLM",)
CORRECTION = "e_score_correction_bias"
POSITIONS = {
    FULL: {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    partial_rotary_factor: float | None = None
    sliding_window: int = 512
    layer_types: Any = None
    mlp_layer_types: Any = None
    num_attention_heads_per_layer: Any = None
    gating: Any = True
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts_per_tok: int = 8
    num_experts: int = 256
    moe_routed_scaling_factor: float = 1.0
    moe_apply_router_weight_on_input: bool = False
    moe_router_logit_softcapping: float = 0.0
    model_type: str = "laguna"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("moe_apply_router_weight_on_input", c.moe_apply_router_weight_on_input, (False,))
    count, c.rope_parameters = c.num_hidden_layers, c.rope_parameters or POSITIONS
    within = kinds_of(c.layer_types, count, lambda i: False)
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: i > 0)
    heads = c.num_attention_heads_per_layer or [c.num_attention_heads] * count
    heads = numbers_of("num_attention_heads_per_layer", heads, count)
    over = c.gating is True or c.gating == "per-head"

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        return replace(
            a,
            heads=heads[layer],
            norm=NormSpec("rms", c.rms_norm_eps),
            gate_over="head" if over else "each",
            gate_act="softplus",
            rotary=rotary_of_kind(vars(c), a.head_dim, kind, None),
            window=c.sliding_window if within[layer] else None,
            names=AttentionNames(gate="g_proj"),
        )

    plain = llama.describe(replace(c, rope_parameters=None, rope_scaling=None))
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        shared=MLPSpec(c.shared_expert_intermediate_size, c.hidden_act),
        names=MLPNames(),
        routing=RoutingSpec(
            "sigmoid",
            correction=CORRECTION,
            scale=c.moe_routed_scaling_factor,
            softcap=max(c.moe_router_logit_softcapping, 0.0),
        ),
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    return with_mlps(each_attention(plain, changed), lambda i: experts if sparse[i] else dense)


def adjust(c: dict[str, Any]) -> None:
    """A file's windows, heads of each layer, layers without experts, and positions of each kind.

    llama.cpp scales the positions of full layers alone.
    """
    windows.adjust_windows(c)
    count, first = c["num_hidden_layers"], c.get("first_k_dense_replace", 0)
    heads = listed("attention.head_count", c.get("each_head"), int, [])
    c.update(num_attention_heads_per_layer=heads, num_attention_heads=max(heads, default=1))
    c["mlp_layer_types"] = ["dense" if i < first else "sparse" for i in range(count)]
    scaling = c.pop("rope_scaling", None) or {"rope_type": "default"}
    head = max(c["head_dim"], 1)
    c["rope_parameters"] = {
        FULL: {
            **scaling,
            "rope_theta": c.get("rope_theta", 10000.0),
            "partial_rotary_factor": c.get("rotated", head) / head,
        },
        SLIDING: {
            "rope_type": "default",
            "rope_theta": c.get("swa_theta", c.get("rope_theta", 10000.0)),
            "partial_rotary_factor": c.get("swa_rotated", head) / head,
        },
    }


def tell(model: Any) -> dict[str, Any]:
    """Of layers: windows, heads, experts, positions."""
    layers = model.spec.layers
    dense = [not isinstance(layer.mlp, ExpertsSpec) for layer in layers]
    told = windows.tell_windows(model) | windows.tell_bases(model) | scored(model)
    within = [e.attention.rotary.dim for e in layers if e.attention.window is not None]
    return told | {
        "attention.head_count": np.array([e.attention.heads for e in layers], np.int32),
        "attention.head_count_kv": layers[0].attention.kv_heads,
        "attention.sliding_window": np.uint32(model.config.sliding_window),
        "leading_dense_block_count": dense.index(False) if False in dense else len(dense),
        "expert_weights_norm": True,
        **({"rope.dimension_count_swa": within[0]} if within else {}),
    }


GGUF = Architecture(
    "laguna",
    "LagunaForCausalLM",
    keys={
        **windows.KEYS,
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_attention_heads": "",
        "each_head": "attention.head_count",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
        "moe_routed_scaling_factor": "expert_weights_scale",
        "first_k_dense_replace": "leading_dense_block_count",
        "rotated": "rope.dimension_count",
        "swa_rotated": "rope.dimension_count_swa",
        "swa_theta": "rope.freq_base_swa",
    },
    adjust=adjust,
    metadata=tell,
    attention=AttentionNames(gate="g_proj"),
    parts={
        "blk.{}.attn_gate": "model.layers.{}.self_attn.g_proj",
        "blk.{}.exp_probs_b.bias": f"model.layers.{{}}.mlp.gate.{CORRECTION}",
    },
)

FAMILY = Family(
    model_types=("laguna",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed(f"mlp.experts.{CORRECTION}", f"mlp.gate.{CORRECTION}"),
    gguf_types=("laguna",),
    gguf=GGUF,
)
