"""pyannote's segmentation (Plaquet and Bredin, 2023): who speaks when, within 10 seconds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.pyannote import SegmentationModel

_BANK = "sincnet.conv1d.0.filterbank."
_STATE = "state_dict."
TENSORS = (f"{_BANK}low_hz_", f"{_STATE}{_BANK}low_hz_")
# By the number of classes: the speakers of a piece, and of a set; no set: one class a speaker.
_SETS = {7: (3, 2), 11: (4, 2), 3: (3, 0), 4: (4, 0), 2: (2, 0)}


@dataclass
class Config:
    """The keys of config.json; a checkpoint without one is told by its tensors."""

    sampling_rate: int = 16000
    seconds: int = 10
    filters: int = 80
    channels: int = 60
    sincnet_stride: int = 10
    hidden_size: int = 128
    num_layers: int = 4
    linear_size: int = 128
    linear_layers: int = 2
    speakers: int = 3
    together: int = 2
    model_type: str = "pyannote_segmentation"


def build(config: dict[str, Any], names: Collection[str]) -> SegmentationModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    choose("sampling_rate", c.sampling_rate, (16000,))
    at_least_one(c, "seconds", "channels", "sincnet_stride", "hidden_size", "num_layers")
    if c.filters < 2 or c.filters % 2 or not 0 < c.speakers <= 8 or c.together > c.speakers:
        raise FormatError(
            f"config.json: filters {c.filters} must be even, speakers {c.speakers} 1 to 8, and "
            f"together {c.together} no more than these"
        )
    return SegmentationModel(c)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The network's tensors of a training's file."""
    own = {name.removeprefix(_STATE): t for name, t in tensors.items()}
    return {n: t for n, t in own.items() if n.startswith(("sincnet.", "lstm.", "linear.", "class"))}


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of pyannote's file."""
    own = rename_tensors(tensors)

    def shape(name: str, dims: int) -> tuple[int, ...]:
        found = own.get(name)
        if found is None or found.ndim != dims:
            raise FormatError(f'the segmentation has no tensor "{name}" of {dims} dims')
        return tuple(found.shape)

    classes = shape("classifier.weight", 2)[0]
    if classes not in _SETS:
        raise FormatError(
            f"the segmentation has {classes} classes; supported: {', '.join(map(str, _SETS))}"
        )
    speakers, together = _SETS[classes]
    linear = [n for n in own if re.fullmatch(r"linear\.\d+\.weight", n)]
    return {
        "model_type": "pyannote_segmentation",
        "filters": 2 * shape(f"{_BANK}low_hz_", 2)[0],
        "channels": shape("sincnet.conv1d.1.weight", 3)[0],
        "hidden_size": shape("lstm.weight_hh_l0", 2)[1],
        "num_layers": sum(bool(re.fullmatch(r"lstm\.weight_hh_l\d+", n)) for n in own),
        "linear_size": shape(linear[0], 2)[0] if linear else 1,
        "linear_layers": len(linear),
        "speakers": speakers,
        "together": together,
    }


FAMILY = Family(
    model_types=("pyannote_segmentation",),
    tasks=("speaker-diarization",),
    config=Config,
    build=build,
    tensors=TENSORS,
    config_of=config_of,
    rename_tensors=rename_tensors,
    unused=lambda name, _: name.endswith((".filterbank.window_", ".filterbank.n_")),
)
