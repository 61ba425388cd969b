"""Qwen2 and Qwen2.5 (Yang et al., 2024): LLaMA with biases of q, k and v."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, by_sections
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Qwen2ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: Any = None
    max_position_embeddings: int = 32768
    model_type: str = "qwen2"


def windows(c: Config) -> list[int | None]:
    """The window of each layer: by `layer_types`, or of those from `max_window_layers` on."""
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: i >= c.max_window_layers)
    return [
        c.sliding_window if is_sliding and c.use_sliding_window else None for is_sliding in within
    ]


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    layer_windows = windows(c)
    return each_attention(
        llama.describe(c),
        lambda i, a: replace(a, bias=True, out_bias=False, window=layer_windows[i]),
    )


GGUF = Architecture(
    "qwen2", "Qwen2ForCausalLM", keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"}
)

FAMILY = Family(
    model_types=("qwen2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("qwen2", "qwen2vl"),
    gguf=GGUF,
    gguf_others={"qwen2vl": by_sections(GGUF)},
)
