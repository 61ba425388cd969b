"""SEW (Wu et al., 2021): wav2vec 2.0 whose layers run on a half of the frames."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.speech.sew import SEWModel
from rushlight.models.layers.speech.wave_heads import classes_of

ARCHITECTURES = classes_of("SEW")


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    squeeze_factor: int = 2
    conv_dim: list[Any] = field(default_factory=lambda: [64, *[128] * 4, *[256] * 4, *[512] * 4])
    conv_stride: list[Any] = field(default_factory=lambda: [5, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1])
    conv_kernel: list[Any] = field(default_factory=lambda: [10, 3, 1, 3, 1, 3, 1, 3, 1, 2, 1, 2, 1])
    model_type: str = "sew"


def describe(c: Any, names: Collection[str]) -> tuple[EncoderSpec, list[tuple[int, int, int]]]:
    """The encoder of a configuration, and the convolutions before it."""
    c.do_stable_layer_norm = False  # which no SEW has
    return wav2vec2.describe(c, names)


family, builder = wav2vec2.family, wav2vec2.builder  # for SEW-D
FAMILY = family("sew", Config, ARCHITECTURES, SEWModel, describe=describe)
