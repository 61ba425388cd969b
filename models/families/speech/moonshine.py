"""Moonshine (Jeffries et al., 2024): speech to text from samples, for audio of any length."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.moonshine import MoonshineModel, moonshine_spec

ARCHITECTURES = ("MoonshineForConditionalGeneration",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    vocab_size: int = 32768
    hidden_size: int = 288
    intermediate_size: int = 1152
    encoder_num_hidden_layers: int = 6
    decoder_num_hidden_layers: int = 6
    encoder_num_attention_heads: int = 8
    decoder_num_attention_heads: int = 8
    encoder_num_key_value_heads: int | None = None
    decoder_num_key_value_heads: int | None = None
    head_dim: int | None = None
    pad_head_dim_to_multiple_of: int | None = None  # for speed alone
    encoder_hidden_act: str = "gelu"
    decoder_hidden_act: str = "silu"
    max_position_embeddings: int = 512
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    partial_rotary_factor: float | None = None
    attention_bias: bool = False
    tie_word_embeddings: bool = True
    model_type: str = "moonshine"


def build(config: dict[str, Any], names: Collection[str]) -> MoonshineModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    return MoonshineModel(c, moonshine_spec(c))


FAMILY = Family(
    model_types=("moonshine",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
