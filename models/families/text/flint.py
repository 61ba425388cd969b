"""Flint (RecursiveSI, 2026): Qwen3's experts by sigmoid and a shared one, windows and sinks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen3_moe
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("FlintForCausalLM",)


@dataclass
class Config(qwen3_moe.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 4
    head_dim: int | None = 128
    max_position_embeddings: int = 262144
    sliding_window: int | None = 513
    layer_types: Any = None
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 1024
    num_experts_per_tok: int = 6
    num_experts: int = 256
    norm_topk_prob: bool = True
    model_type: str = "flint"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count = c.num_hidden_layers
    within = kinds_of(c.layer_types, count, lambda i: i > 1 and i % 4 != 1 and i != count - 1)
    c.mlp_only_layers = [0, 1] if c.mlp_only_layers is None else c.mlp_only_layers

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        window = c.sliding_window if within[layer] else None
        return replace(a, sinks=True, window=window, rotary=a.rotary if within[layer] else None)

    plain = each_attention(
        qwen3_moe.describe(replace(c, layer_types=None, sliding_window=None)), changed
    )

    def fed(layer: int) -> MLPSpec | ExpertsSpec:
        mlp = plain.layers[layer].mlp
        if not isinstance(mlp, ExpertsSpec):
            return MLPSpec(c.intermediate_size, c.hidden_act)
        shared = MLPSpec(c.shared_expert_intermediate_size, c.hidden_act)
        return replace(mlp, routing=RoutingSpec("sigmoid"), shared=shared)

    return with_mlps(plain, fed)


FAMILY = Family(
    model_types=("flint",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed("self_attn.softmax_offset", "self_attn.sinks"),
)
