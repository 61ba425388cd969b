"""Falcon Mamba (TII, 2024): Mamba with norms, without weights, of time steps, b and c."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import mamba
from rushlight.models.layers.blocks.state_space import MambaSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("FalconMambaForCausalLM",)


@dataclass
class Config(mamba.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"use_falcon_mambapy": ()}

    mixer_rms_eps: float = 1e-6
    model_type: str = "falcon_mamba"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = mamba.describe(c)
    scan = plain.layers[0].attention if plain.layers else None
    if isinstance(scan, MambaSpec):
        scan = replace(scan, part_eps=c.mixer_rms_eps, part_weights=False)
        plain = replace(plain, layers=tuple(replace(s, attention=scan) for s in plain.layers))
    return plain


FAMILY = Family(
    model_types=("falcon_mamba",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="backbone.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
