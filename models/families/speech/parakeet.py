"""Parakeet (NVIDIA, 2024): fast conformers over mel features, with CTC or as a transducer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech.parakeet import ParakeetModel, TransducerModel

ARCHITECTURES = ("ParakeetForCTC", "ParakeetForRNNT", "ParakeetForTDT")


@dataclass
class EncoderConfig:
    """The keys of encoder_config; defaults are transformers'."""

    neutral = dict.fromkeys(
        ("dropout_positions", "layerdrop", "max_position_embeddings", "num_key_value_heads"), ()
    )

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 8
    head_dim: int | None = None
    intermediate_size: int = 4096
    hidden_act: str = "silu"
    attention_bias: bool = True
    convolution_bias: bool = True
    conv_kernel_size: int = 9
    subsampling_factor: int = 8
    subsampling_conv_channels: int = 256
    subsampling_conv_kernel_size: int = 3
    subsampling_conv_stride: int = 2
    num_mel_bins: int = 80
    scale_input: bool = True
    model_type: str = "parakeet_encoder"


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = dict.fromkeys(
        ("ctc_loss_reduction", "ctc_zero_infinity", "is_encoder_decoder", "num_key_value_heads"), ()
    )

    encoder_config: dict[str, Any] | None = None
    vocab_size: int = 1025
    pad_token_id: int | None = 1024
    decoder_hidden_size: int = 640
    num_decoder_layers: int = 2
    hidden_act: str = "relu"
    max_symbols_per_step: int = 10
    blank_token_id: int = 8192
    durations: list[Any] = field(default_factory=lambda: [0, 1, 2, 3, 4])
    model_type: str = "parakeet_ctc"


def build(config: dict[str, Any], names: Collection[str]) -> ParakeetModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = {"model_type": "parakeet_encoder", **(c.encoder_config or {})}
    encoder = read_config(EncoderConfig, told)
    choose("encoder_config.hidden_act", encoder.hidden_act, tuple(ACTIVATIONS))
    if c.model_type == "parakeet_ctc":
        return ParakeetModel(c, encoder, names)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    if c.model_type == "parakeet_rnnt":
        c.durations = []
    return TransducerModel(c, encoder, names)


FAMILY = Family(
    model_types=("parakeet_ctc", "parakeet_rnnt", "parakeet_tdt"),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
