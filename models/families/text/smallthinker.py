"""SmallThinker (Song et al., 2025): experts by ReLU, which are chosen before attention."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.early_routing import EarlyRouting
from rushlight.models.layers.building import (
    decoder_builder,
    each_attention,
    numbers_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.routing import RoutingSpec

ARCHITECTURES = ("SmallThinkerForCausalLM",)
NAMES = DecoderNames(mlp="block_sparse_moe")
FED = MLPNames(gate="gate", up="up", down="down", router="primary_router")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: int = field(default=0, kw_only=True)  # all layers have experts
    moe_num_primary_experts: int = 32
    moe_num_active_primary_experts: int = 4
    moe_ffn_hidden_size: int = 768
    moe_primary_router_apply_softmax: bool = False
    moe_enable_early_router: bool = True
    moe_enable_secondary_experts: bool = False
    moe_layer_layout: Any = None
    norm_topk_prob: bool = True
    rope_layout: Any = None
    sliding_window_layout: Any = None
    sliding_window_size: int | None = None
    model_type: str = "smallthinker"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("moe_enable_early_router", c.moe_enable_early_router, (True,))
    choose("moe_enable_secondary_experts", c.moe_enable_secondary_experts, (False,))
    count = c.num_hidden_layers
    choose("moe_layer_layout", c.moe_layer_layout, (None, [1] * count))
    turned = numbers_of("rope_layout", c.rope_layout or [1] * count, count)
    within = numbers_of("sliding_window_layout", c.sliding_window_layout or [0] * count, count)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        window = c.sliding_window_size if within[layer] else None
        return replace(a, rotary=a.rotary if turned[layer] else None, window=window)

    experts = ExpertsSpec(
        c.moe_num_primary_experts,
        c.moe_num_active_primary_experts,
        c.moe_ffn_hidden_size,
        "relu",
        c.norm_topk_prob,
        names=FED,
        routing=RoutingSpec("softmax" if c.moe_primary_router_apply_softmax else "sigmoid"),
    )
    spec = with_mlps(each_attention(llama.describe(c), changed), lambda _: experts)
    return replace(spec, names=NAMES, streams=EarlyRouting())


def adjust(c: dict[str, Any]) -> None:
    """With windows llama.cpp takes those of the published models: of 4096, but each fourth layer.

    Layers without a window know no positions then.
    """
    c["moe_primary_router_apply_softmax"] = c.get("score") != 2
    if c.get("sliding_window_size"):
        layout = [int(i % 4 > 0) for i in range(c["num_hidden_layers"])]
        c.update(rope_layout=layout, sliding_window_layout=layout, sliding_window_size=4096)


GGUF = Architecture(
    "smallthinker",
    ARCHITECTURES[0],
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "intermediate_size": "",
        "moe_num_primary_experts": "expert_count",
        "moe_num_active_primary_experts": "expert_used_count",
        "moe_ffn_hidden_size": "expert_feed_forward_length",
        "sliding_window_size": "attention.sliding_window",
        "score": "expert_gating_func",
    },
    adjust=adjust,
    decoder=NAMES,
    mlp=FED,
    metadata=lambda model: {
        "expert_gating_func": np.uint32(1 + (model.spec.layers[0].mlp.routing.score == "sigmoid"))
    },
)

FAMILY = Family(
    model_types=("smallthinker",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("smallthinker",),
    gguf=GGUF,
)
