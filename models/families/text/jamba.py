"""Jamba (AI21, 2024): Mamba blocks, attention without positions in some layers, and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.state_space import MambaSpec, rank_of
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec

ARCHITECTURES = ("JambaForCausalLM",)
NAMES = DecoderNames(before_mlp="pre_ff_layernorm", mlp="feed_forward", norm="final_layernorm")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"use_mamba_kernels": ()}

    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 262144
    num_experts_per_tok: int = 2
    num_experts: int = 16
    expert_layer_period: int = 2
    expert_layer_offset: int = 1
    attn_layer_period: int = 8
    attn_layer_offset: int = 4
    mamba_d_state: int = 16
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_dt_rank: Any = "auto"
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    model_type: str = "jamba"


def chosen(c: Config, kind: str) -> list[bool]:
    """Whether each layer is of the `kind` that comes once in so many layers."""
    period, offset = (getattr(c, f"{kind}_layer_{name}") for name in ("period", "offset"))
    if offset >= period:
        raise FormatError(
            f"config.json: {kind}_layer_offset is {offset}; it must be less than "
            f"{kind}_layer_period, {period}"
        )
    return [i % period == offset for i in range(c.num_hidden_layers)]


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    routed, full = chosen(c, "expert"), chosen(c, "attn")
    scan = MambaSpec(
        c.hidden_size,
        int(c.mamba_expand * c.hidden_size),
        c.mamba_d_state,
        rank_of(c.mamba_dt_rank, c.hidden_size),
        c.mamba_d_conv,
        c.mamba_proj_bias,
        c.mamba_conv_bias,
        c.hidden_act,
        c.rms_norm_eps,
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)

    def fed(layer: int) -> MLPSpec | ExpertsSpec:
        if not routed[layer] or c.num_experts < 2:
            return dense
        return ExpertsSpec(
            c.num_experts,
            c.num_experts_per_tok,
            c.intermediate_size,
            c.hidden_act,
            normalized=False,
            names=MLPNames(router="router"),
        )

    def unplaced(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(a, rotary=None)

    plain = with_mlps(each_attention(llama.describe(c), unplaced), fed)
    layers = tuple(
        layer if full[i] else replace(layer, attention=scan, name="mamba")
        for i, layer in enumerate(plain.layers)
    )
    return replace(plain, layers=layers, names=NAMES)


FAMILY = Family(
    model_types=("jamba",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
