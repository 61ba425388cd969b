"""WavTokenizer (Ji et al., 2024): a code a frame, of a wide table, and Vocos that decodes it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound.encodec import sea_spec
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.sound.seanet import rename_tensors
from rushlight.models.layers.sound.wavtokenizer import WavTokenizerModel

ARCHITECTURES = ("WavTokenizerModel",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    sampling_rate: int = 24000
    audio_channels: int = 1
    num_filters: int = 32
    upsampling_ratios: list[Any] = field(default_factory=lambda: [6, 5, 5, 4])
    num_residual_layers: int = 1
    dilation_growth_rate: int = 2
    compress: int = 2
    use_conv_shortcut: bool = True
    use_causal_conv: bool = False
    pad_mode: str = "reflect"
    norm_type: str = "weight_norm"
    kernel_size: int = 7
    last_kernel_size: int = 7
    residual_kernel_size: int = 3
    num_lstm_layers: int = 2
    hidden_size: int = 512
    codebook_size: int = 4096
    codebook_dim: int = 512
    decoder_hidden_size: int = 768
    decoder_intermediate_size: int = 2304
    decoder_num_layers: int = 12
    adanorm_num_embeddings: int = 4
    decoder_attention_num_groups: int = 32
    norm_eps: float = 1e-6
    trim_right_ratio: float = 1.0
    model_type: str = "wavtokenizer"


def build(config: dict[str, Any], names: Collection[str]) -> WavTokenizerModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("norm_type", c.norm_type, ("weight_norm", "time_group_norm"))
    choose("audio_channels", c.audio_channels, (1,))
    at_least_one(
        c, "decoder_attention_num_groups", "adanorm_num_embeddings", "codebook_size",
        "sampling_rate", "decoder_hidden_size",
    )  # fmt: skip
    spec = sea_spec(c)
    if c.codebook_dim != c.hidden_size or c.decoder_hidden_size % c.decoder_attention_num_groups:
        raise FormatError(
            f"config.json: codebook_dim {c.codebook_dim} must be hidden_size {c.hidden_size}, and "
            f"decoder_hidden_size {c.decoder_hidden_size} a multiple of "
            f"decoder_attention_num_groups {c.decoder_attention_num_groups}"
        )
    if c.decoder_num_layers > 1 << 10 or math.prod(spec.ratios) > 1 << 16:
        raise FormatError(
            f"config.json: decoder_num_layers {c.decoder_num_layers} or upsampling_ratios "
            f"{list(spec.ratios)} are out of range"
        )
    return WavTokenizerModel(c, spec)


FAMILY = Family(
    model_types=("wavtokenizer",),
    tasks=("audio-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=without(("inited", "cluster_size", "embed_avg")),
)
