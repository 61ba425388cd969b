"""SpeechT5 (Ao et al., 2022): speech of characters in the voice of an x-vector, with HiFi-GAN."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.voices import hifigan
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech.speecht5 import SpeechT5Model

ARCHITECTURES = ("SpeechT5ForTextToSpeech",)
# Of training, and of the classes that hear speech or write text.
_NEUTRAL = """encoder_layerdrop decoder_layerdrop positional_dropout hidden_dropout
    attention_dropout activation_dropout speech_decoder_postnet_dropout feat_proj_dropout
    apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks mask_feature_prob
    mask_feature_length mask_feature_min_masks use_guided_attention_loss
    guided_attention_loss_num_heads guided_attention_loss_sigma guided_attention_loss_scale
    scale_embedding feat_extract_norm feat_extract_activation conv_dim conv_stride conv_kernel
    conv_bias num_conv_pos_embeddings num_conv_pos_embedding_groups is_encoder_decoder
    num_feat_extract_layers""".split()


@dataclass
class Config:
    """The keys of config.json that speech of texts depends on; defaults are transformers'."""

    neutral = dict.fromkeys(_NEUTRAL, ())
    own = ("vocoder_config",)

    vocab_size: int = 81
    hidden_size: int = 768
    encoder_layers: int = 12
    encoder_attention_heads: int = 12
    encoder_ffn_dim: int = 3072
    decoder_layers: int = 6
    decoder_ffn_dim: int = 3072
    decoder_attention_heads: int = 12
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    num_mel_bins: int = 80
    speech_decoder_prenet_layers: int = 2
    speech_decoder_prenet_units: int = 256
    speech_decoder_prenet_dropout: float = 0.5
    speaker_embedding_dim: int = 512
    speech_decoder_postnet_layers: int = 5
    speech_decoder_postnet_units: int = 256
    speech_decoder_postnet_kernel: int = 5
    reduction_factor: int = 2
    max_speech_positions: int = 4000
    max_text_positions: int = 450
    encoder_max_relative_position: int = 160
    vocoder_config: dict[str, Any] | None = None  # of tensors vocoder.*, where these are saved
    model_type: str = "speecht5"


def build(config: dict[str, Any], names: Collection[str]) -> SpeechT5Model:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    at_least_one(c, *(name for name, kind in Config.__annotations__.items() if kind == "int"))
    for side in ("encoder", "decoder"):
        heads = getattr(c, f"{side}_attention_heads")
        if c.hidden_size % heads or c.hidden_size % 2:
            raise FormatError(
                f"config.json: hidden_size {c.hidden_size} is not even, or not a multiple of "
                f"{side}_attention_heads {heads}"
            )
    if c.speech_decoder_postnet_kernel % 2 == 0 or not 0 <= c.speech_decoder_prenet_dropout < 1:
        raise FormatError(
            f"config.json: speech_decoder_postnet_kernel is {c.speech_decoder_postnet_kernel}, "
            "which must be odd, and speech_decoder_prenet_dropout "
            f"{c.speech_decoder_prenet_dropout}, which must be 0 or more and below 1"
        )
    spec, normalized, rate = None, True, 16000
    if c.vocoder_config is not None or any(name.startswith("vocoder.") for name in names):
        inner = read_config(hifigan.Config, {"model_type": "hifigan", **(c.vocoder_config or {})})
        spec, normalized = hifigan.spec_of(inner), inner.normalize_before
        rate = inner.sampling_rate
        if spec.width != c.num_mel_bins:
            raise FormatError(
                f"config.json: the vocoder's model_in_dim {spec.width} is not num_mel_bins "
                f"{c.num_mel_bins}"
            )
    return SpeechT5Model(c, spec, normalized, rate)


def _unused(name: str, config: dict[str, Any]) -> bool:
    """Tables of positions, which older files hold."""
    return name.endswith("encode_positions.pe")


FAMILY = Family(
    model_types=("speecht5",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    unused=_unused,
)
