"""MusicGen Melody (Copet et al., 2023): music whose decoder reads a melody and a text first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound.musicgen import Decoder as MusicDecoder
from rushlight.models.families.sound.musicgen import both_of, part_of
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.sound.musicgen import MelodyModel
from rushlight.models.layers.sound.seanet import rename_tensors

ARCHITECTURES = ("MusicgenMelodyForConditionalGeneration",)


@dataclass
class Config:
    """The keys of config.json."""

    text_encoder: Any = None
    audio_encoder: Any = None
    decoder: Any = None
    num_chroma: int = 12
    chroma_length: int = 235
    model_type: str = "musicgen_melody"


@dataclass
class Decoder(MusicDecoder):
    """The keys of config.json's decoder."""

    model_type: str = "musicgen_melody_decoder"


def build(config: dict[str, Any], names: Collection[str]) -> MelodyModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    at_least_one(c, "num_chroma", "chroma_length")
    if c.chroma_length > 1 << 20:
        raise FormatError(f"config.json: chroma_length {c.chroma_length} is out of range")
    inner = read_config(Decoder, part_of(config, "decoder", "musicgen_melody_decoder"))
    return MelodyModel(c, inner, *both_of(config, inner))


FAMILY = Family(
    model_types=("musicgen_melody",),
    tasks=("text-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=without(("inited", "cluster_size", "embed_avg")),
)
