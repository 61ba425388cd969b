"""Llama 4's language model (Meta, 2025): attention within chunks, full layers without positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers import building
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import experts_in_halves

ARCHITECTURES = ("Llama4ForCausalLM",)
NAMES, FED = DecoderNames(mlp="feed_forward"), MLPNames(router="router")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size_mlp: int = 16384
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    num_experts_per_tok: int = 1
    num_local_experts: int = 16
    moe_layers: Any = None
    interleave_moe_layer_step: int = 1
    no_rope_layers: Any = None
    use_qk_norm: bool = True
    no_rope_layer_interval: int = 4
    attention_chunk_size: int | None = 8192
    layer_types: Any = None
    attn_temperature_tuning: Any = True
    floor_scale: int = 8192
    attn_scale: float = 0.1
    model_type: str = "llama4_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    n, unit = c.num_hidden_layers, c.rms_norm_eps if c.use_qk_norm else None
    placed = c.no_rope_layers or [(i + 1) % max(c.no_rope_layer_interval, 1) for i in range(n)]
    placed = building.numbers_of("no_rope_layers", placed, n)
    within = building.kinds_of(c.layer_types, n, lambda i: placed[i] != 0, "chunked_attention")
    even = [i for i in range(n) if not (i + 1) % max(c.interleave_moe_layer_step, 1)]
    sparse = building.numbers_of("moe_layers", even if c.moe_layers is None else c.moe_layers)
    warm = (c.attn_scale, max(c.floor_scale, 1), 1.0) if c.attn_temperature_tuning else None

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        a = replace(a, chunk=c.attention_chunk_size if within[layer] else None)
        if a.rotary is None or not placed[layer]:
            return replace(a, rotary=None, temperature=warm)
        return replace(a, rotary=replace(a.rotary, interleaved=True), unit=unit)

    dense, always = (
        MLPSpec(n, c.hidden_act) for n in (c.intermediate_size_mlp, c.intermediate_size)
    )
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        False,
        always,
        routing=RoutingSpec("sigmoid", before=True),
        names=FED,
    )
    spec = replace(building.each_attention(llama.describe(c), changed), names=NAMES)
    return building.with_mlps(spec, lambda i: experts if i in sparse else dense)


GGUF = Architecture(
    "llama4_text",
    "Llama4ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "intermediate_size_mlp": "feed_forward_length",
        "intermediate_size": "expert_feed_forward_length",
        "interleave_moe_layer_step": "interleave_moe_layer_step",
    },
    decoder=NAMES,
    mlp=FED,
    adjust=lambda c: c.update(use_qk_norm=c["num_local_experts"] != 128),
)

FAMILY = Family(
    model_types=("llama4_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=building.decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    parts=experts_in_halves(),
    gguf_types=("llama4",),
    gguf=GGUF,
)
