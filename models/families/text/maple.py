"""Maple (Deep Grove, 2026): Qwen3's experts with limited gates; full layers know no positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec

ARCHITECTURES = ("MapleForCausalLM",)
LIMIT = 7.0


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    partial_rotary_factor: float | None = 1.0
    sliding_window: int | None = None
    layer_types: Any = None
    nope_on_global_attention: bool = True
    num_experts: int = 64
    num_experts_per_tok: int = 8
    num_shared_experts: int = 0
    moe_intermediate_size: int = 512
    norm_topk_prob: bool = True
    model_type: str = "maple"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("num_shared_experts", c.num_shared_experts, (0,))
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda _: False)
    plain = llama.describe(c)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        known = within[layer] or not c.nope_on_global_attention
        window = c.sliding_window if within[layer] else None
        return replace(a, norm=plain.norm, rotary=a.rotary if known else None, window=window)

    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        c.norm_topk_prob,
        limit=LIMIT,
        alpha=1.0,
        lift=0.0,
    )
    return with_mlps(each_attention(plain, changed), lambda _: experts)


def tell(model: Any) -> dict[str, Any]:
    """Windows, and the limit of gates in each layer."""
    count = len(model.spec.layers)
    return windows.tell_windows(model) | {"swiglu_clamp_exp": np.full(count, LIMIT, np.float32)}


GGUF = Architecture(
    "maple",
    ARCHITECTURES[0],
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        **windows.KEYS,
    },
    fixed={"norm_topk_prob": True},
    adjust=windows.adjust_windows,
    metadata=tell,
)

FAMILY = Family(
    model_types=("maple",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("maple",),
    gguf=GGUF,
)
