"""Canary (NVIDIA, 2024): Parakeet's encoder and a decoder that writes or translates speech."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.speech import parakeet
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech.canary import CanaryModel

ARCHITECTURES = ("CanaryForConditionalGeneration",)
PROMPT = (
    "<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|{language}|>",
    "<|{written}|>", "<|pnc|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>",
)  # fmt: skip
_ENCODER = {"num_hidden_layers": 32, "num_mel_bins": 128, "scale_input": False}


@dataclass
class DecoderConfig:
    """The keys of decoder_config; defaults are transformers'."""

    neutral = {"is_encoder_decoder": ()}

    vocab_size: int = 16384
    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 8
    hidden_act: str = "relu"
    max_position_embeddings: int = 1024
    attention_bias: bool = True
    head_dim: int | None = 128
    model_type: str = "canary_decoder"


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {"is_encoder_decoder": ()}

    encoder_config: dict[str, Any] | None = None
    decoder_config: dict[str, Any] | None = None
    vocab_size: int = 16384
    tie_word_embeddings: bool = True
    model_type: str = "canary"


def encoder_of(told: dict[str, Any] | None, usual: dict[str, Any]) -> parakeet.EncoderConfig:
    """The keys of encoder_config, a fast conformer's; `usual` is what others leave out."""
    values = {**usual, **(told or {}), "model_type": "parakeet_encoder", "architectures": None}
    encoder = read_config(parakeet.EncoderConfig, values)
    choose("encoder_config.hidden_act", encoder.hidden_act, tuple(ACTIVATIONS))
    return encoder


def build(config: dict[str, Any], names: Collection[str]) -> CanaryModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**(c.decoder_config or {}), "model_type": "canary_decoder", "architectures": None}
    decoder = read_config(DecoderConfig, values)
    choose("vocab_size", c.vocab_size, (decoder.vocab_size,))
    encoder = encoder_of(c.encoder_config, _ENCODER if c.encoder_config is None else {})
    return CanaryModel(c, encoder, decoder, PROMPT, learned=False)


FAMILY = Family(
    model_types=("canary",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
