"""openPangu-Embedded (Huawei, 2025): LLaMA with biases in attention."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("PanguEmbeddedForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    bias: bool = True
    model_type: str = "PanguEmbedded"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.attention_bias = c.bias
    return llama.describe(c)


GGUF = Architecture(
    "PanguEmbedded",
    ARCHITECTURES[0],
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
)

FAMILY = Family(
    model_types=("PanguEmbedded",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("pangu-embedded",),
    gguf=GGUF,
)
