"""Qwen3 (Yang et al., 2025): LLaMA with norms of each head's q and k."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2
from rushlight.models.gguf.architecture import Architecture, by_sections
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Qwen3ForCausalLM",)


@dataclass
class Config(qwen2.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 128
    model_type: str = "qwen3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def normed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            bias=c.attention_bias,
            out_bias=c.attention_bias,
            norm=NormSpec("rms", c.rms_norm_eps),
        )

    return each_attention(qwen2.describe(c), normed)


GGUF = Architecture(
    "qwen3", "Qwen3ForCausalLM", keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"}
)

FAMILY = Family(
    model_types=("qwen3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("qwen3", "qwen3vl"),
    gguf=GGUF,
    gguf_others={"qwen3vl": by_sections(GGUF)},
)
