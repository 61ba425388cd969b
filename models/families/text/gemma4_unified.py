"""Gemma 4's language model without inputs of its layers (Gemma Team, 2026), as in the 12B one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.text import gemma4
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Gemma4UnifiedForCausalLM",)


@dataclass
class Config(gemma4.Config):
    """The keys of config.json that the model depends on."""

    sliding_window: int = 1024
    use_bidirectional_attention: str | None = "vision"
    max_position_embeddings: int = 262144
    model_type: str = "gemma4_unified_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return gemma4.describe(replace(c, hidden_size_per_layer_input=0, enable_moe_block=False))


FAMILY = replace(
    gemma4.FAMILY,
    model_types=("gemma4_unified_text",),
    architectures=ARCHITECTURES,
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=(),
    gguf=None,
)
