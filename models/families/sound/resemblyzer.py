"""Resemblyzer's encoder of voices (Wan et al., 2018): a vector that says who speaks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.sound.voices import VoiceEncoder

_STATE = "model_state."
TENSORS = ("similarity_weight", f"{_STATE}similarity_weight")


@dataclass
class Config:
    """The keys of config.json; a checkpoint without one is told by its tensors."""

    sampling_rate: int = 16000
    num_mel_bins: int = 40
    hidden_size: int = 256
    num_hidden_layers: int = 3
    embedding_size: int = 256
    model_type: str = "resemblyzer"


def build(config: dict[str, Any], names: Collection[str]) -> VoiceEncoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    return VoiceEncoder(read_config(Config, config))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The network's tensors of a training's file, without its optimizer's and its loss's."""
    own = {name.removeprefix(_STATE): t for name, t in tensors.items()}
    return {n: t for n, t in own.items() if n.startswith(("lstm.", "linear."))}


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of the package's file."""
    own = rename_tensors(tensors)
    first, last = own.get("lstm.weight_ih_l0"), own.get("linear.weight")
    if first is None or last is None or first.ndim != 2 or last.ndim != 2:
        raise FormatError('the voice encoder has no tensor "lstm.weight_ih_l0" or "linear.weight"')
    return {
        "model_type": "resemblyzer",
        "num_mel_bins": first.shape[1],
        "hidden_size": first.shape[0] // 4,
        "num_hidden_layers": sum(name.startswith("lstm.weight_ih_l") for name in own),
        "embedding_size": last.shape[0],
    }


FAMILY = Family(
    model_types=("resemblyzer",),
    tasks=("speaker-verification",),
    config=Config,
    build=build,
    tensors=TENSORS,
    config_of=config_of,
    rename_tensors=rename_tensors,
)
