"""HiFi-GAN (Kong et al., 2020): spectrograms to samples; SpeechT5 has it beside it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.hifigan import HifiGan, VocoderSpec

ARCHITECTURES = ("SpeechT5HifiGan",)


@dataclass
class Config:
    """The keys of config.json; defaults are transformers'."""

    neutral = {"num_feat_extract_layers": ()}  # a property of SpeechT5's own configuration
    model_in_dim: int = 80
    sampling_rate: int = 16000
    upsample_initial_channel: int = 512
    upsample_rates: list[Any] = field(default_factory=lambda: [4, 4, 4, 4])
    upsample_kernel_sizes: list[Any] = field(default_factory=lambda: [8, 8, 8, 8])
    resblock_kernel_sizes: list[Any] = field(default_factory=lambda: [3, 7, 11])
    resblock_dilation_sizes: list[Any] = field(default_factory=lambda: [[1, 3, 5]] * 3)
    leaky_relu_slope: float = 0.1
    normalize_before: bool = True
    model_type: str = "hifigan"


def spec_of(c: Config) -> VocoderSpec:
    """The sizes of the vocoder. FormatError for those that do not fit together."""
    at_least_one(c, "model_in_dim", "upsample_initial_channel", "sampling_rate")
    rows = c.resblock_dilation_sizes
    if not all(isinstance(row, list) for row in rows):
        raise FormatError("config.json: resblock_dilation_sizes must hold a list for each kernel")
    flat = [*c.upsample_rates, *c.upsample_kernel_sizes, *c.resblock_kernel_sizes]
    if not all(type(size) is int and size < 1 << 16 for size in [*flat, *sum(rows, [])]):
        raise FormatError("config.json: upsample and resblock sizes must be whole numbers in lists")
    return VocoderSpec(
        c.model_in_dim,
        c.upsample_initial_channel,
        tuple(c.upsample_rates),
        tuple(c.upsample_kernel_sizes),
        tuple(c.resblock_kernel_sizes),
        tuple(map(tuple, rows)),
        c.leaky_relu_slope,
        last_bias=True,
    )


def build(config: dict[str, Any], names: Collection[str]) -> HifiGan:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    return HifiGan(c, spec_of(c))


FAMILY = Family(
    model_types=("hifigan", "speecht5_hifigan"),
    tasks=(),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
