"""Cohere's mixtures of experts (2026): Command R7B with experts, of which some are shared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import cohere
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    decoder_builder,
    each_attention,
    kinds_of,
    sparse_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.layers.shared_experts import SHARED

ARCHITECTURES = ("Cohere2MoeForCausalLM",)


@dataclass
class Config(cohere.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 128
    sliding_window: int | None = 4096
    sliding_window_pattern: int = 4
    layer_types: Any = None
    num_experts_per_tok: int = 2
    num_experts: int = 8
    num_shared_experts: int = 0
    shared_expert_combination_strategy: str = "average"
    expert_selection_fn: str = "softmax"
    mlp_layer_types: Any = None
    first_k_dense_replace: int = 0
    prefix_dense_sliding_window_pattern: int = 1
    norm_topk_prob: bool = True
    prefix_dense_intermediate_size: int | None = None
    rms_norm_eps: Any = None
    model_type: str = "cohere2_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("expert_selection_fn", c.expert_selection_fn, ("softmax", "sigmoid"))
    choose(
        "shared_expert_combination_strategy",
        c.shared_expert_combination_strategy,
        ("sum", "average"),
    )
    first, prefix = c.first_k_dense_replace, max(c.prefix_dense_sliding_window_pattern, 1)
    every, count = max(c.sliding_window_pattern, 1), c.num_hidden_layers
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: i >= first)
    within = kinds_of(
        c.layer_types,
        count,
        lambda i: (i + 1) % prefix != 0 if i < first else (i - first + 1) % every != 0,
    )

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        window = c.sliding_window if within[layer] else None
        forced = not sparse[layer] and c.prefix_dense_sliding_window_pattern == 1
        rotary = None if window is None and not forced else a.rotary
        return replace(a, rotary=rotary, window=window)

    halved = c.num_shared_experts > 0 and c.shared_expert_combination_strategy == "average"
    part = 0.5 if halved else 1.0
    always = c.intermediate_size * c.num_shared_experts
    soft = c.expert_selection_fn == "softmax"
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        normalized=soft or c.norm_topk_prob,
        shared=MLPSpec(always, c.hidden_act, scales=(1.0, part)) if always else None,
        names=SHARED,
        routing=RoutingSpec("softmax" if soft else "sigmoid", scale=part),
    )
    inner = c.prefix_dense_intermediate_size
    dense = MLPSpec(c.intermediate_size if inner is None else inner, c.hidden_act)
    spec = with_mlps(
        each_attention(cohere.describe(c), changed), lambda i: experts if sparse[i] else dense
    )
    return spec if c.rms_norm_eps is None else replace(spec, norm=NormSpec("rms", c.rms_norm_eps))


def adjust(c: dict[str, Any]) -> None:
    """A file's windows, and layers without experts; it has RMS norms if it says their epsilon."""
    windows.adjust_windows(c)
    c["intermediate_size"] = c.get("moe_intermediate_size") or c["intermediate_size"]
    count, first = c["num_hidden_layers"], c.get("first_k_dense_replace", 0)
    c["mlp_layer_types"] = ["dense" if i < first else "sparse" for i in range(count)]
    c["expert_selection_fn"] = "softmax" if c.get("score") == 1 else "sigmoid"


def tell(model: Any) -> dict[str, Any]:
    """Of experts."""
    layers = model.spec.layers
    experts = [e.mlp for e in layers if isinstance(e.mlp, ExpertsSpec)]
    dense = [e.mlp for e in layers if isinstance(e.mlp, MLPSpec)]
    sigmoid, shared = experts[0].routing.score == "sigmoid", experts[0].shared
    told = {
        "leading_dense_block_count": len(dense),
        "expert_feed_forward_length": experts[0].inner,
        "feed_forward_length": dense[0].inner if dense else experts[0].inner,
        "expert_weights_norm": experts[0].normalized,
        "expert_gating_func": np.uint32(1 + sigmoid),
        "attention.sliding_window": np.uint32(model.config.sliding_window),
    }
    if shared is not None:
        told["expert_shared_feed_forward_length"] = shared.inner
    return windows.tell_windows(model) | told


GGUF = Architecture(
    "cohere2_moe",
    "Cohere2MoeForCausalLM",
    keys={
        **cohere.GGUF.keys,
        **windows.KEYS,
        "intermediate_size": "",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "first_k_dense_replace": "leading_dense_block_count",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "prefix_dense_intermediate_size": "feed_forward_length",
        "norm_topk_prob": "expert_weights_norm",
        "score": "expert_gating_func",
    },
    decoder=cohere.GGUF.decoder,
    mlp=SHARED,
    adjust=adjust,
    metadata=tell,
)

FAMILY = Family(
    model_types=("cohere2_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("cohere2moe",),
    gguf=GGUF,
)
