"""VITS (Kim et al., 2021): speech of characters or phonemes; MMS-TTS, and Piper's voices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.speech import piper
from rushlight.models.layers.speech.hifigan import VocoderSpec
from rushlight.models.layers.speech.vits import VitsModel

ARCHITECTURES = ("VitsModel",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    # Of training, in which spectrograms are read too.
    neutral = dict.fromkeys(
        """layerdrop wavenet_dropout duration_predictor_dropout spectrogram_bins
        posterior_encoder_num_wavenet_layers""".split(),
        (),
    )
    own = ("resblock_pairs", "voice")

    vocab_size: int = 38
    hidden_size: int = 192
    num_hidden_layers: int = 6
    num_attention_heads: int = 2
    window_size: int | None = 4
    use_bias: bool = True
    ffn_dim: int = 768
    ffn_kernel_size: int = 3
    flow_size: int = 192
    hidden_act: str = "relu"
    layer_norm_eps: float = 1e-5
    use_stochastic_duration_prediction: bool = True
    num_speakers: int = 1
    speaker_embedding_size: int = 0
    upsample_initial_channel: int = 512
    upsample_rates: list[Any] = field(default_factory=lambda: [8, 8, 2, 2])
    upsample_kernel_sizes: list[Any] = field(default_factory=lambda: [16, 16, 4, 4])
    resblock_kernel_sizes: list[Any] = field(default_factory=lambda: [3, 7, 11])
    resblock_dilation_sizes: list[Any] = field(default_factory=lambda: [[1, 3, 5]] * 3)
    leaky_relu_slope: float = 0.1
    depth_separable_channels: int = 2
    depth_separable_num_layers: int = 3
    duration_predictor_flow_bins: int = 10
    duration_predictor_tail_bound: float = 5.0
    duration_predictor_kernel_size: int = 3
    duration_predictor_num_flows: int = 4
    duration_predictor_filter_channels: int = 256
    prior_encoder_num_flows: int = 4
    prior_encoder_num_wavenet_layers: int = 4
    wavenet_kernel_size: int = 5
    wavenet_dilation_rate: int = 1
    speaking_rate: float = 1.0
    noise_scale: float = 0.667
    noise_scale_duration: float = 0.8
    sampling_rate: int = 16000
    resblock_pairs: bool = True  # false: Piper's voices of medium quality
    voice: dict[str, Any] | None = None  # what Piper's file of a voice says
    model_type: str = "vits"


def build(config: dict[str, Any], names: Collection[str]) -> VitsModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("depth_separable_channels", c.depth_separable_channels, (2,))
    at_least_one(
        c,
        "vocab_size",
        "hidden_size",
        "num_attention_heads",
        "ffn_kernel_size",
        "prior_encoder_num_wavenet_layers",
        "duration_predictor_flow_bins",
        "duration_predictor_num_flows",
        "num_speakers",
        "sampling_rate",
    )
    if c.hidden_size % c.num_attention_heads:
        raise FormatError(
            f"config.json: hidden_size {c.hidden_size} is not a multiple of num_attention_heads "
            f"{c.num_attention_heads}"
        )
    if c.window_size is not None and c.window_size < 1:
        raise FormatError(f"config.json: window_size is {c.window_size}; it must be at least 1")
    if c.flow_size < 2 or c.flow_size % 2 or c.duration_predictor_flow_bins > 999:
        raise FormatError(
            f"config.json: flow_size is {c.flow_size}, an even number from 2 on, and "
            f"duration_predictor_flow_bins {c.duration_predictor_flow_bins}, at most 999"
        )
    if not (c.speaking_rate > 0 and c.duration_predictor_tail_bound > 0):
        raise FormatError(
            f"config.json: speaking_rate is {c.speaking_rate}, duration_predictor_tail_bound "
            f"{c.duration_predictor_tail_bound}; they must be above 0"
        )
    if c.num_speakers > 1 and c.speaker_embedding_size < 1:
        raise FormatError(
            f"config.json: speaker_embedding_size is {c.speaker_embedding_size}; with "
            f"{c.num_speakers} speakers it must be at least 1"
        )
    return VitsModel(c, _vocoder(c), names)


def _vocoder(c: Config) -> VocoderSpec:
    rows = c.resblock_dilation_sizes
    if not all(isinstance(row, list) for row in rows):
        raise FormatError("config.json: resblock_dilation_sizes must hold a list for each kernel")
    flat = [*c.upsample_rates, *c.upsample_kernel_sizes, *c.resblock_kernel_sizes]
    if not all(type(size) is int and size < 1 << 16 for size in [*flat, *sum(rows, [])]):
        raise FormatError(
            "config.json: upsample_rates, upsample_kernel_sizes, resblock_kernel_sizes and "
            "resblock_dilation_sizes must hold whole numbers"
        )
    return VocoderSpec(
        c.flow_size,
        c.upsample_initial_channel,
        tuple(c.upsample_rates),
        tuple(c.upsample_kernel_sizes),
        tuple(c.resblock_kernel_sizes),
        tuple(map(tuple, rows)),
        c.leaky_relu_slope,
        c.resblock_pairs,
        speaker=c.speaker_embedding_size,
    )


def _unused(name: str, config: dict[str, Any]) -> bool:
    """Tensors of training: the reader of spectrograms, and flows of durations that are known."""
    parts = ("posterior_encoder.", "duration_predictor.post_", "duration_predictor.flows.1.")
    return name.startswith(parts)


FAMILY = Family(
    model_types=("vits",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=piper.rename_tensors,
    unused=_unused,
    suffixes=(".onnx",),
    open_parts=piper.open_parts,
)
