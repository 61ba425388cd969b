"""Bamba (IBM, Princeton, CMU and UIUC, 2024): Mamba2 blocks, and attention in some layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.state_space import mamba2_of
from rushlight.models.layers.building import decoder_builder, each_attention, numbers_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("BambaForCausalLM",)
NAMES = DecoderNames(before_mlp="pre_ff_layernorm", mlp="feed_forward", norm="final_layernorm")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"z_loss_coefficient": ()}  # of training

    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 262144
    rms_norm_eps: float = 1e-5
    attn_layer_indices: Any = None
    mamba_n_heads: int = 128
    mamba_d_head: Any = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: Any = None
    model_type: str = "bamba"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    full = numbers_of("attn_layer_indices", c.attn_layer_indices or [])
    scan = mamba2_of(c)

    def rotated(layer: int, a: AttentionSpec) -> AttentionSpec:
        # The reference sets the share itself, whatever the file says beside rope_parameters.
        return replace(a, rotary=rotary_of(vars(c) | {"partial_rotary_factor": 0.5}, a.head_dim))

    plain = each_attention(llama.describe(c), rotated)
    layers = tuple(
        layer if i in full else replace(layer, attention=scan, name="mamba")
        for i, layer in enumerate(plain.layers)
    )
    return replace(plain, layers=layers, names=NAMES)


FAMILY = Family(
    model_types=("bamba",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
