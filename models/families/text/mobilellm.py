"""MobileLLM (Liu et al., 2024): LLaMA, deep and narrow; its head is the embedding."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("MobileLLMForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    share_embedding: bool = True
    layer_sharing: bool = False
    model_type: str = "mobilellm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("layer_sharing", c.layer_sharing, (False,))
    c.tie_word_embeddings = c.share_embedding
    return llama.describe(c)


FAMILY = Family(
    model_types=("mobilellm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
