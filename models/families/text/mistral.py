"""Mistral (Jiang et al., 2023) and Ministral: LLaMA within a sliding window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("MistralForCausalLM", "MinistralForCausalLM")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    sliding_window: int | None = 4096
    layer_types: Any = None
    max_position_embeddings: int = 131072
    model_type: str = "mistral"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda layer: True)
    return each_attention(
        llama.describe(c),
        lambda i, a: replace(a, window=c.sliding_window if within[i] else None),
    )


GGUF = llama.GGUF

FAMILY = Family(
    model_types=("mistral", "ministral"),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("llama/mistral",),  # written as llama, and read as one
    gguf=GGUF,
)
