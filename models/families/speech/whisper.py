"""Whisper (Radford et al., 2022): speech to text; tiny to large-v3, turbo, distil-whisper."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech import files
from rushlight.models.layers.speech.skeleton import SpeechModel, speech_spec

ARCHITECTURES = ("WhisperForConditionalGeneration", "WhisperModel")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    num_mel_bins: int = 80
    max_source_positions: int = 1500
    max_target_positions: int = 448
    activation_function: str = "gelu"
    tie_word_embeddings: bool = True
    num_hidden_layers: int | None = None  # the same as encoder_layers
    scale_embedding: bool = False  # which transformers does not multiply by either
    # Of training, of classification, and of what follows the model.
    apply_spec_augment: bool = False
    mask_time_prob: float = 0.0
    mask_time_length: int = 10
    mask_time_min_masks: int = 2
    mask_feature_prob: float = 0.0
    mask_feature_length: int = 10
    mask_feature_min_masks: int = 0
    use_weighted_layer_sum: bool = False
    classifier_proj_size: int = 256
    median_filter_width: int = 7
    forced_decoder_ids: list[Any] | None = None
    alignment_heads: list[Any] | None = None
    model_type: str = "whisper"


def build(config: dict[str, Any], names: Collection[str]) -> SpeechModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("activation_function", c.activation_function, tuple(ACTIVATIONS))
    choose("use_weighted_layer_sum", c.use_weighted_layer_sum, (False,))
    model = SpeechModel(c, speech_spec(c))
    if not c.tie_word_embeddings:
        model.untie("proj_out.weight")
    return model


FAMILY = Family(
    model_types=("whisper",),
    tasks=("automatic-speech-recognition",),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=files.rename_tensors,
    tensors=("encoder/conv1/weight", "ggml:hparams", "dims.n_audio_state"),
    files_of=files.files_of,
)
