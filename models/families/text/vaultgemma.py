"""VaultGemma (Google, 2025): Gemma 2 without norms after the parts, trained with privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma2
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec

ARCHITECTURES = ("VaultGemmaForCausalLM",)
NAMES = DecoderNames(before_mlp="pre_feedforward_layernorm")


@dataclass
class Config(gemma2.Config):
    """The keys of config.json that the model depends on."""

    neutral = {}

    num_key_value_heads: int | None = 4
    model_type: str = "vaultgemma"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return replace(gemma2.describe(c), names=NAMES)


FAMILY = Family(
    model_types=("vaultgemma",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
