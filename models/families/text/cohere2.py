"""Cohere's Command R7B (2024): Command R with windows, whose layers alone know positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import cohere
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Cohere2ForCausalLM",)


@dataclass
class Config(cohere.Config):
    """The keys of config.json that the model depends on."""

    sliding_window: int | None = 4096
    sliding_window_pattern: int = 4
    layer_types: Any = None
    model_type: str = "cohere2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every = max(c.sliding_window_pattern, 1)
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: (i + 1) % every != 0)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        window = c.sliding_window if within[layer] else None
        return replace(a, rotary=None if window is None else a.rotary, window=window)

    return each_attention(cohere.describe(c), changed)


GGUF = Architecture(
    "cohere2",
    "Cohere2ForCausalLM",
    keys={
        **cohere.GGUF.keys,
        "sliding_window": "attention.sliding_window",
        "sliding_window_pattern": "attention.sliding_window_pattern",
    },
    decoder=cohere.GGUF.decoder,
)

FAMILY = Family(
    model_types=("cohere2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("cohere2",),
    gguf=GGUF,
)
