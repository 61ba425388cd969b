"""Lara Mini (Translated, 2026): Qwen3's attention, in windows or not, delta layers, experts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.blocks.gated_delta import delta_of
from rushlight.models.layers.building import FULL, LINEAR, SLIDING, decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.parts import stacked_experts

ARCHITECTURES = ("LaraMiniForCausalLM",)
PATTERN = (LINEAR, SLIDING, LINEAR, FULL, SLIDING)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: int = field(default=0, kw_only=True)  # all layers have experts
    num_key_value_heads: int | None = 4
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    tie_word_embeddings: bool | None = True
    sliding_window: int = 512
    layer_types: Any = None
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 8
    linear_num_value_heads: int = 16
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts_per_tok: int = 4
    num_experts: int = 128
    norm_topk_prob: bool = True
    model_type: str = "lara_mini"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count, plain = c.num_hidden_layers, llama.describe(c)
    kinds = c.layer_types or [PATTERN[i % len(PATTERN)] for i in range(count)]
    if not isinstance(kinds, list) or len(kinds) != count or {*kinds} - {*PATTERN}:
        raise FormatError(
            f"config.json: layer_types is {brief(kinds)}; it must have {count} entries, each "
            f"{FULL}, {SLIDING} or {LINEAR}"
        )
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        c.norm_topk_prob,
        MLPSpec(c.shared_expert_intermediate_size, c.hidden_act),
    )
    delta = LayerSpec(delta_of(c, whole=True), experts, "linear_attn")
    attention: Any = plain.layers[0].attention
    full = replace(attention, norm=NormSpec("rms", c.rms_norm_eps))
    by_kind = {
        LINEAR: delta,
        FULL: LayerSpec(replace(full, rotary=None), experts),
        SLIDING: LayerSpec(replace(full, window=c.sliding_window), experts),
    }
    return replace(plain, layers=tuple(by_kind[kind] for kind in kinds))


FAMILY = Family(
    model_types=("lara_mini",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=stacked_experts(),
)
