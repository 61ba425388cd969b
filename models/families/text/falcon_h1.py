"""Falcon-H1 (TII, 2025): attention and a Mamba2 block side by side, with published multipliers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import layouts
from rushlight.models.layers.blocks.state_space import Mamba2Spec, limits_of
from rushlight.models.layers.building import FLOATS, decoder_builder, each_attention, numbers_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("FalconH1ForCausalLM",)
NAMES = DecoderNames(before_mlp="pre_ff_layernorm", mlp="feed_forward", norm="final_layernorm")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 8192
    rms_norm_eps: float = 1e-5
    mamba_d_ssm: int | None = 1024
    mamba_n_heads: int = 128
    mamba_d_head: Any = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    projectors_bias: bool = False
    mamba_norm_before_gate: bool = True
    mamba_rms_norm: bool = False
    time_step_limit: Any = None
    lm_head_multiplier: float = 1.0
    embedding_multiplier: float = 1.0
    mlp_multipliers: Any = (1.0, 1.0)
    key_multiplier: float = 1.0
    attention_in_multiplier: float = 1.0
    attention_out_multiplier: float = 1.0
    ssm_multipliers: Any = (1.0,) * 5
    ssm_in_multiplier: float = 1.0
    ssm_out_multiplier: float = 1.0
    model_type: str = "falcon_h1"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    inner = int(c.mamba_expand * c.hidden_size) if c.mamba_d_ssm is None else c.mamba_d_ssm
    head, normed = inner // max(c.mamba_n_heads, 1), c.mamba_rms_norm
    choose(
        "mamba_d_head", c.mamba_d_head, ("auto", head) if head * c.mamba_n_heads == inner else ()
    )
    scan = Mamba2Spec(
        c.hidden_size, c.mamba_n_heads, head, c.mamba_n_groups, c.mamba_d_state, c.mamba_d_conv,
        c.mamba_proj_bias, c.mamba_conv_bias, c.hidden_act, limits_of(c.time_step_limit),
        c.rms_norm_eps if normed else None, normed and c.mamba_norm_before_gate, c.projectors_bias,
        (c.ssm_in_multiplier, c.ssm_out_multiplier,
         *numbers_of("ssm_multipliers", c.ssm_multipliers, 5, FLOATS)))  # fmt: skip
    gate, down = numbers_of("mlp_multipliers", c.mlp_multipliers, 2, FLOATS)
    spec = each_attention(llama.describe(c), lambda i, a: replace(
        a, scales=(c.attention_in_multiplier, c.attention_out_multiplier),
        scale=a.head_dim**-0.5 * c.key_multiplier))  # fmt: skip
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias, scales=(gate, down))
    layers = tuple(replace(one, beside=("mamba", scan), mlp=mlp) for one in spec.layers)
    return replace(spec, layers=layers, names=NAMES, embedding_scale=c.embedding_multiplier,
                   logits_scale=c.lm_head_multiplier)  # fmt: skip


FAMILY = Family(
    model_types=("falcon_h1",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("falcon-h1",),
    gguf=layouts.falcon_h1(NAMES),
)
