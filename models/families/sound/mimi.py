"""Mimi (Défossez et al., 2024): a codec of speech whose first code says what is spoken."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound.encodec import sea_spec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.sound.mimi import MimiModel

ARCHITECTURES = ("MimiModel",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'.

    frame_rate: of codes, in older files; without it every two frames of SEANet are one.
    """

    neutral = {"use_streaming": (), "layer_scale_initial_scale": (), "max_position_embeddings": ()}
    own = ("frame_rate", "_frame_rate")

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
    codebook_size: int = 2048
    codebook_dim: int | None = 256
    num_quantizers: int = 32
    use_conv_shortcut: bool = False
    vector_quantization_hidden_dimension: int = 256
    num_semantic_quantizers: int = 1
    upsample_groups: int = 512
    num_hidden_layers: int = 8
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int | None = None
    hidden_act: str = "gelu"
    norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    sliding_window: int = 250
    attention_bias: bool = False
    frame_rate: float | None = None
    _frame_rate: float | None = None
    model_type: str = "mimi"


def build(config: dict[str, Any], names: Collection[str]) -> MimiModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    c.upsampling_ratios = c.upsampling_ratios or [8, 6, 5, 4]
    spec = sea_spec(c)
    heads, shared = c.num_attention_heads, c.num_key_value_heads
    if heads < 1 or shared < 1 or c.hidden_size % heads or heads % shared:
        raise FormatError(
            f"config.json: num_attention_heads {heads} and num_key_value_heads {shared} do not "
            f"divide hidden_size {c.hidden_size}"
        )
    c.head_dim = c.head_dim or c.hidden_size // heads
    if c.codebook_dim not in (None, c.vector_quantization_hidden_dimension):
        raise FormatError(
            f"config.json: codebook_dim {c.codebook_dim} is not "
            f"vector_quantization_hidden_dimension {c.vector_quantization_hidden_dimension}"
        )
    if not 1 <= c.num_semantic_quantizers < c.num_quantizers <= 1 << 10 or c.sliding_window < 1:
        raise FormatError(
            f"config.json: num_quantizers {c.num_quantizers}, num_semantic_quantizers "
            f"{c.num_semantic_quantizers} or sliding_window {c.sliding_window} is out of range"
        )
    return MimiModel(c, spec, rotary_of(vars(c), c.head_dim), step_of(c))


def step_of(c: Config) -> int:
    """How many of SEANet's frames are one frame of codes."""
    frames = math.ceil(c.sampling_rate / math.prod(c.upsampling_ratios or []))
    rate = c.frame_rate or c._frame_rate
    if rate is None:
        rate = c.sampling_rate / (math.prod(c.upsampling_ratios or []) * 2)
    if rate == frames:
        return 1
    step = int(frames / rate) if rate > 0 else 0
    if not 1 <= step <= 1 << 10 or c.hidden_size % max(c.upsample_groups, 1):
        raise FormatError(
            f"config.json: frame_rate {rate:g} does not fit {frames} frames a second, or "
            f"upsample_groups {c.upsample_groups} hidden_size {c.hidden_size}"
        )
    return step


FAMILY = Family(
    model_types=("mimi",),
    tasks=("audio-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=("encoder_config", "decoder_config"),
    unused=without(("initialized",)),
)
