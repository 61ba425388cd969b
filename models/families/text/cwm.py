"""CWM (Meta FAIR, 2025): LLaMA 3 with three windows to one full layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("CwmForCausalLM",)
SCALING = {
    "rope_type": "llama3",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1000000.0
    sliding_window: int | None = 8192
    layer_types: Any = None
    model_type: str = "cwm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.rope_parameters = c.rope_scaling or c.rope_parameters or SCALING
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: i % 4 != 0)
    return each_attention(
        llama.describe(c),
        lambda i, a: replace(a, window=(c.sliding_window or None) if within[i] else None),
    )


FAMILY = Family(
    model_types=("cwm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
