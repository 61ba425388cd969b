"""SNAC (Siuzdak et al., 2024): a codec whose codes have several rates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.sound.snac import SnacModel, rename_tensors


@dataclass
class Config:
    """The keys of config.json; attn_window_size, of the models of 32 and 44 kHz, is refused."""

    sampling_rate: int = 44100
    encoder_dim: int = 64
    encoder_rates: list[Any] = field(default_factory=lambda: [3, 3, 7, 7])
    latent_dim: int | None = None
    decoder_dim: int = 1536
    decoder_rates: list[Any] = field(default_factory=lambda: [7, 7, 3, 3])
    attn_window_size: int | None = 32
    codebook_size: int = 4096
    codebook_dim: int = 8
    vq_strides: list[Any] = field(default_factory=lambda: [8, 4, 2, 1])
    noise: bool = True
    depthwise: bool = True
    model_type: str = "snac"


def build(config: dict[str, Any], names: Collection[str]) -> SnacModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    if c.attn_window_size is not None:
        raise FormatError(
            f"config.json: attn_window_size {c.attn_window_size} is not supported; supported: "
            "null, as of snac_24khz"
        )
    rates = [numbers_of(key, getattr(c, key)) for key in ("encoder_rates", "decoder_rates")]
    strides, counts = numbers_of("vq_strides", c.vq_strides), [*rates[0], *rates[1], *c.vq_strides]
    if not all(rates) or not strides or not all(1 <= n <= 1 << 12 for n in counts):
        raise FormatError(f"config.json: encoder_rates {rates[0]} or vq_strides {strides} are none")
    if sorted(rates[0]) != sorted(rates[1]) or any(strides[0] % s for s in strides):
        raise FormatError(
            f"config.json: decoder_rates {rates[1]} are not encoder_rates {rates[0]} backwards, or "
            f"vq_strides {strides} do not divide the first"
        )
    if c.latent_dim not in (None, c.encoder_dim << len(rates[0])):
        raise FormatError(f"config.json: latent_dim {c.latent_dim} is not the encoder's width")
    if c.decoder_dim >> len(rates[1]) < 1:
        raise FormatError(f"config.json: decoder_dim {c.decoder_dim} cannot be halved so often")
    return SnacModel(c)


FAMILY = Family(
    model_types=("snac",),
    tasks=("audio-to-audio",),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
