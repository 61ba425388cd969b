"""Youtu-LLM (Tencent, 2025): the latent attention of DeepSeek V3 in a dense model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.positions.rotary import magnified, rotary_of

ARCHITECTURES = ("YoutuForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"embedding_initializer_range": ()}  # of training

    kv_lora_rank: int = 512
    q_lora_rank: int | None = 1536
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    rope_interleave: bool | None = True
    max_position_embeddings: int = 131072
    tie_word_embeddings: bool | None = True
    model_type: str = "youtu"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.head_dim = rotated = c.qk_rope_head_dim
    rotary = replace(rotary_of(vars(c), rotated), interleaved=bool(c.rope_interleave))
    attention = LatentSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.kv_lora_rank,
        c.q_lora_rank,
        c.qk_nope_head_dim,
        c.v_head_dim,
        rotary,
        magnified(vars(c)) / math.sqrt(max(c.qk_nope_head_dim + rotated, 1)),
        c.attention_bias,
    )
    plain = llama.describe(c)
    return replace(
        plain, layers=tuple(LayerSpec(attention, of.mlp, rotary=rotary) for of in plain.layers)
    )


FAMILY = Family(
    model_types=("youtu",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
