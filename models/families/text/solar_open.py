"""Solar Open (Upstage, 2026): GLM-4.5 with whole heads rotated, experts in every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import glm4_moe
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("SolarOpenForCausalLM",)


@dataclass
class Config(glm4_moe.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: int = 0  # no layer is dense
    num_hidden_layers: int = 48
    num_attention_heads: int = 64
    head_dim: int | None = 128
    rope_theta: float = 1000000.0
    first_k_dense_replace: int = 0
    model_type: str = "solar_open"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return each_attention(
        glm4_moe.describe(c), lambda _, a: replace(a, rotary=rotary_of(vars(c), a.head_dim))
    )


FAMILY = Family(
    model_types=("solar_open",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("glm4moe/solar_open",),  # written as glm4moe, and read as one
    gguf=glm4_moe.GGUF,
)
