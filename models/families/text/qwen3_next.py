"""Qwen3-Next (Qwen Team, 2025): three gated delta layers to one of gated attention, and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2_moe
from rushlight.models.gguf.scans import qwen3_next
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.gated_delta import GatedDeltaSpec
from rushlight.models.layers.building import LINEAR, decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Qwen3NextForCausalLM",)


@dataclass
class Config(qwen2_moe.Config):
    """The keys of config.json that the model depends on."""

    own = ("split",)

    head_dim: int | None = 256
    partial_rotary_factor: float | None = 0.25
    full_attention_interval: int = 4
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts: int = 512
    num_experts_per_tok: int = 10
    norm_topk_prob: bool = True
    split: bool = False  # matrices of q, k and v, and of gates: in GGUF files
    model_type: str = "qwen3_next"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every = max(c.full_attention_interval, 1)
    linear = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: bool((i + 1) % every), LINEAR)
    norm = NormSpec("rms", c.rms_norm_eps, offset=1.0)
    delta = GatedDeltaSpec(
        c.hidden_size, c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim,
        c.linear_value_head_dim, c.linear_conv_kernel_dim, c.hidden_act, c.rms_norm_eps,
        c.split,
    )  # fmt: skip

    def gated(layer: int, a: AttentionSpec) -> AttentionSpec:
        bias = c.attention_bias
        return replace(a, bias=bias, out_bias=bias, norm=norm, gated=True)

    plain = each_attention(qwen2_moe.describe(replace(c, layer_types=None)), gated)
    layers = tuple(
        replace(one, attention=delta, name="linear_attn") if linear[i] else one
        for i, one in enumerate(plain.layers)
    )
    return replace(plain, layers=layers, norm=norm)


FAMILY = Family(
    model_types=("qwen3_next",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("qwen3next",),
    gguf=qwen3_next(qwen2_moe.GGUF.keys),
)
