"""Seed-OSS (ByteDance Seed, 2025): LLaMA with biases of q, k and v, and of the output by a key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("SeedOssForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"residual_dropout": ()}  # of training

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 524288
    attention_bias: bool = True
    attention_out_bias: bool = False
    model_type: str = "seed_oss"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return each_attention(llama.describe(c), lambda _, a: replace(a, out_bias=c.attention_out_bias))


GGUF = Architecture(
    "seed_oss",
    "SeedOssForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    parts={"blk.{}.post_attention_norm": "model.layers.{}.post_attention_layernorm"},
)

FAMILY = Family(
    model_types=("seed_oss",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("seed_oss",),
    gguf=GGUF,
)
