"""Speech2Text (Wang et al., 2020, fairseq S2T): speech to text or to translated text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.speech_to_text import Speech2TextModel, speech_to_text_spec

ARCHITECTURES = ("Speech2TextForConditionalGeneration",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {"is_encoder_decoder": (), "init_std": ()}

    vocab_size: int = 10000
    d_model: int = 256
    encoder_layers: int = 12
    encoder_ffn_dim: int = 2048
    encoder_attention_heads: int = 4
    decoder_layers: int = 6
    decoder_ffn_dim: int = 2048
    decoder_attention_heads: int = 4
    activation_function: str = "relu"
    scale_embedding: bool = True
    max_source_positions: int = 6000
    max_target_positions: int = 1024
    num_conv_layers: int = 2
    conv_kernel_sizes: list[Any] = field(default_factory=lambda: [5, 5])
    conv_channels: int = 1024
    input_feat_per_channel: int = 80
    input_channels: int = 1
    decoder_start_token_id: int = 2
    pad_token_id: int | None = 1
    tie_word_embeddings: bool = True
    model_type: str = "speech_to_text"


def build(config: dict[str, Any], names: Collection[str]) -> Speech2TextModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("pad_token_id", c.pad_token_id, (1,))  # by which the reference counts places
    spec = replace(speech_to_text_spec(c), tied=c.tie_word_embeddings)
    return Speech2TextModel(c, spec)


FAMILY = Family(
    model_types=("speech_to_text",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
