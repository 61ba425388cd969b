"""The codec of Pocket TTS (Kyutai, 2026): Mimi with frames of 32 numbers in place of codes."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound.encodec import sea_spec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.sound.pocket import LatentCodec

ARCHITECTURES = ("PocketTTSAudioTokenizerModel",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {"use_streaming": (), "layer_scale_initial_scale": (), "max_position_embeddings": ()}

    sampling_rate: int = 24000
    audio_channels: int = 1
    hidden_size: int = 512
    num_filters: int = 64
    num_residual_layers: int = 1
    upsampling_ratios: list[Any] | None = None
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    use_causal_conv: bool = True
    pad_mode: str = "constant"
    compress: int = 2
    trim_right_ratio: float = 1.0
    use_conv_shortcut: bool = False
    upsample_groups: int = 512
    num_hidden_layers: int = 2
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int | None = None
    hidden_act: str = "gelu_pytorch_tanh"
    norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    sliding_window: int = 250
    attention_bias: bool = False
    latent_stride: int = 16
    latent_dim: int = 32
    model_type: str = "pocket_tts_audio_tokenizer"


def build(config: dict[str, Any], names: Collection[str]) -> LatentCodec:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("audio_channels", c.audio_channels, (1,))
    at_least_one(c, "latent_dim", "upsample_groups", "sampling_rate", "sliding_window")
    c.upsampling_ratios = c.upsampling_ratios or [6, 5, 4]
    spec = sea_spec(c)
    heads, shared = c.num_attention_heads, c.num_key_value_heads
    if heads < 1 or shared < 1 or c.hidden_size % heads or heads % shared:
        raise FormatError(
            f"config.json: num_attention_heads {heads} and num_key_value_heads {shared} do not "
            f"divide hidden_size {c.hidden_size}"
        )
    c.head_dim = c.head_dim or c.hidden_size // heads
    # Where the two rates are equal the reference leaves the step out, and then does not run.
    frames = math.ceil(c.sampling_rate / math.prod(spec.ratios))
    if not 1 <= c.latent_stride <= 1 << 10 or c.hidden_size % c.upsample_groups:
        raise FormatError(
            f"config.json: latent_stride {c.latent_stride} is out of range, or upsample_groups "
            f"{c.upsample_groups} does not divide hidden_size {c.hidden_size}"
        )
    if c.sampling_rate / (math.prod(spec.ratios) * c.latent_stride) == frames:
        raise FormatError(
            f"config.json: latent_stride {c.latent_stride} makes frames of the rate {frames} that "
            "they have before; it must be 2 or more"
        )
    return LatentCodec(c, spec, rotary_of(vars(c), c.head_dim))


FAMILY = Family(
    model_types=("pocket_tts_audio_tokenizer",),
    tasks=("audio-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=("encoder_config", "decoder_config"),
)
