"""DAC, the Descript Audio Codec (Kumar et al., 2023): codes of sound by narrow projections."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.sound.dac import DacModel

ARCHITECTURES = ("DacModel",)


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'.

    upsampling_ratios, hidden_size and hop_length follow from the others.
    """

    neutral = {
        "quantizer_dropout": (),
        "commitment_loss_weight": (),
        "codebook_loss_weight": (),
        "upsampling_ratios": (),
        "hidden_size": (),
        "hop_length": (),
    }

    encoder_hidden_size: int = 64
    downsampling_ratios: list[Any] = field(default_factory=lambda: [2, 4, 8, 8])
    decoder_hidden_size: int = 1536
    n_codebooks: int = 9
    codebook_size: int = 1024
    codebook_dim: int = 8
    sampling_rate: int = 16000
    model_type: str = "dac"


def build(config: dict[str, Any], names: Collection[str]) -> DacModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    ratios = numbers_of("downsampling_ratios", c.downsampling_ratios)
    if not 1 <= len(ratios) <= 12 or not all(1 <= r <= 1 << 12 for r in ratios):
        raise FormatError(f"config.json: downsampling_ratios {ratios} are no ratios")
    if c.decoder_hidden_size >> len(ratios) < 1 or not 1 <= c.n_codebooks <= 1 << 10:
        raise FormatError(
            f"config.json: decoder_hidden_size {c.decoder_hidden_size} cannot be halved "
            f"{len(ratios)} times, or n_codebooks {c.n_codebooks} is out of range"
        )
    return DacModel(c)


FAMILY = Family(
    model_types=("dac",),
    tasks=("audio-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
