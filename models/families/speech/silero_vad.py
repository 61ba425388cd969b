"""Silero VAD 6: the probability of speech in every 32 ms of audio, at 16 or 8 kHz."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.activity import ActivityModel

TENSORS = ("stft_conv.weight",)
RATES = {256: 16000, 128: 8000}  # by the samples that a frequency is measured over


@dataclass
class Config:
    """The keys of config.json; a checkpoint without one is told by its tensors."""

    sampling_rate: int = 16000
    model_type: str = "silero_vad"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ActivityModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    choose("sampling_rate", c.sampling_rate, (16000, 8000))
    return ActivityModel(c)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of the package's safetensors."""
    shape = tensors[TENSORS[0]].shape
    if len(shape) != 3 or shape[2] not in RATES:
        raise FormatError(
            f"{TENSORS[0]} is {shape}; Silero VAD's is (258, 1, 256) or (130, 1, 128)"
        )
    return {"model_type": "silero_vad", "sampling_rate": RATES[shape[2]]}


FAMILY = Family(
    model_types=("silero_vad",),
    tasks=("voice-activity-detection",),
    config=Config,
    build=build,
    tensors=TENSORS,
    config_of=config_of,
)
