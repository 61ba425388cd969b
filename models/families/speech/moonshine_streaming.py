"""Moonshine's streaming models (Kudlur et al., 2026): Moonshine whose encoder looks little ahead.

Samples go in as frames of 5 ms; each layer of the encoder sees a window of frames.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.moonshine_streaming import StreamingModel

ARCHITECTURES = ("MoonshineStreamingForConditionalGeneration",)
_WINDOWS = [[16, 4], [16, 4], [16, 0], [16, 0], [16, 4], [16, 4]]


@dataclass
class EncoderConfig:
    """The keys of encoder_config; defaults are transformers'."""

    neutral = {"mlp_bias": ()}

    hidden_size: int = 320
    intermediate_size: int = 1280
    hidden_act: str = "gelu"
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 8
    head_dim: int | None = None
    max_position_embeddings: int = 4096
    attention_bias: bool = False
    sample_rate: int = 16000
    frame_ms: float = 5.0
    sliding_windows: list[Any] = field(default_factory=lambda: [list(pair) for pair in _WINDOWS])
    model_type: str = "moonshine_streaming_encoder"


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {"is_encoder_decoder": (), "mlp_bias": ()}  # of a class that no model is made of
    own = ("num_key_value_heads",)  # which the reference reads of files that have it

    encoder_config: dict[str, Any] | None = None
    vocab_size: int = 32768
    hidden_size: int = 320
    intermediate_size: int = 1280
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 4096
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float | None = None
    partial_rotary_factor: float | None = None
    attention_bias: bool = False
    head_dim: int | None = None
    pad_head_dim_to_multiple_of: int | None = None  # for speed alone
    tie_word_embeddings: bool = False
    model_type: str = "moonshine_streaming"


def build(config: dict[str, Any], names: Collection[str]) -> StreamingModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("partial_rotary_factor", c.partial_rotary_factor, (None,))  # rope_parameters has it
    told = {**(c.encoder_config or {}), "model_type": "moonshine_streaming_encoder"}
    return StreamingModel(c, read_config(EncoderConfig, told))


FAMILY = Family(
    model_types=("moonshine_streaming",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
