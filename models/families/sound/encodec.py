"""EnCodec (Défossez et al., 2022): sound as residual codes of a convolutional net."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import FLOATS, numbers_of
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.sound.encodec import ChunkSpec, EncodecModel
from rushlight.models.layers.sound.seanet import SeaSpec, rename_tensors

ARCHITECTURES = ("EncodecModel",)
NORMS, PADDINGS = ("weight_norm", "time_group_norm"), ("reflect", "constant", "replicate")


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    target_bandwidths: list[Any] = field(default_factory=lambda: [1.5, 3.0, 6.0, 12.0, 24.0])
    sampling_rate: int = 24000
    audio_channels: int = 1
    normalize: bool = False
    chunk_length_s: float | None = None
    overlap: float | None = None
    hidden_size: int = 128
    num_filters: int = 32
    num_residual_layers: int = 1
    upsampling_ratios: list[Any] = field(default_factory=lambda: [8, 5, 4, 2])
    norm_type: str = "weight_norm"
    kernel_size: int = 7
    last_kernel_size: int = 7
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    use_causal_conv: bool = True
    pad_mode: str = "reflect"
    compress: int = 2
    num_lstm_layers: int = 2
    trim_right_ratio: float = 1.0
    codebook_size: int = 1024
    codebook_dim: int | None = None
    use_conv_shortcut: bool = True
    model_type: str = "encodec"


def build(config: dict[str, Any], names: Collection[str]) -> EncodecModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    spec = sea_spec(c)
    if c.codebook_dim not in (None, c.hidden_size):
        raise FormatError(
            f"config.json: codebook_dim {c.codebook_dim} is not hidden_size {c.hidden_size}"
        )
    length = stride = None
    if c.chunk_length_s is not None:
        length = int(c.chunk_length_s * c.sampling_rate)
        if length < 1 or c.overlap is None or not 0 <= c.overlap < 1:
            raise FormatError(
                f"config.json: chunk_length_s {c.chunk_length_s} and overlap {c.overlap} do not "
                "make chunks: a length above 0, and a share below 1"
            )
        stride = max(1, int((1.0 - c.overlap) * length))
    return EncodecModel(c, spec, ChunkSpec(length, stride, c.normalize), counts_of(c))


def sea_spec(c: Any) -> SeaSpec:
    """The convolutions that a configuration asks for; FormatError for what makes none."""
    norm = getattr(c, "norm_type", "")
    choose("norm_type", norm, (*NORMS, ""))
    choose("pad_mode", c.pad_mode, PADDINGS)
    ratios = tuple(numbers_of("upsampling_ratios", c.upsampling_ratios))
    if not 1 <= len(ratios) <= 12 or not all(1 <= r <= 1 << 12 for r in ratios):
        raise FormatError(f"config.json: upsampling_ratios {list(ratios)} are no ratios")
    if c.num_filters < 1 or not 1 <= c.compress <= c.num_filters:
        raise FormatError(
            f"config.json: compress {c.compress} does not divide num_filters {c.num_filters}"
        )
    if not c.use_causal_conv and c.trim_right_ratio != 1.0:
        raise FormatError(
            f"config.json: trim_right_ratio {c.trim_right_ratio} is for causal convolutions alone"
        )
    if not 0 <= c.trim_right_ratio <= 1 or c.audio_channels not in (1, 2):
        raise FormatError(
            f"config.json: trim_right_ratio {c.trim_right_ratio} or audio_channels "
            f"{c.audio_channels} is out of range"
        )
    return SeaSpec(
        c.audio_channels,
        c.num_filters,
        c.hidden_size,
        ratios,
        c.num_residual_layers,
        c.kernel_size,
        c.last_kernel_size,
        c.residual_kernel_size,
        c.dilation_growth_rate,
        c.use_causal_conv,
        c.pad_mode,
        norm,
        c.trim_right_ratio,
        c.compress,
        getattr(c, "num_lstm_layers", 0),
        c.use_conv_shortcut,
    )


def counts_of(c: Config) -> dict[float, int]:
    """The codebooks of each bandwidth, in the order of config.json."""
    widths = numbers_of("target_bandwidths", c.target_bandwidths, None, FLOATS)
    bits = math.log2(c.codebook_size) if c.codebook_size > 1 else 0
    if not widths or bits != int(bits) or not bits:
        raise FormatError(
            f"config.json: target_bandwidths {widths} or codebook_size {c.codebook_size}, which is "
            "a power of two, is not supported"
        )
    frames = math.ceil(c.sampling_rate / math.prod(c.upsampling_ratios))
    most = int(1000 * widths[-1] // (frames * bits))
    if not 1 <= most <= 1 << 10:
        raise FormatError(f"config.json: target_bandwidths {widths} make {most} codebooks")
    return {float(w): min(most, max(1, int(w * 1000 // (frames * bits)))) for w in widths}


FAMILY = Family(
    model_types=("encodec",),
    tasks=("audio-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=without(("inited", "cluster_size", "embed_avg")),
)
