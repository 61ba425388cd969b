"""Helium (Kyutai, 2025): LLaMA whose rotary positions turn neighbouring pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("HeliumForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 128
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-08
    rope_theta: float = 100000.0
    model_type: str = "helium"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        rotary = None if a.rotary is None else replace(a.rotary, interleaved=True)
        return replace(a, rotary=rotary, out_bias=False)

    return each_attention(llama.describe(c), changed)


FAMILY = Family(
    model_types=("helium",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
