"""WavLM (Chen et al., 2022): wav2vec 2.0's network with a gated bias by distance in each layer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.positions.distances import RelativeSpec
from rushlight.models.layers.speech.wave_heads import EVERY, classes_of
from rushlight.models.layers.speech.wavlm import GatedLayer, WavLMModel

ARCHITECTURES = classes_of("WavLM", EVERY)


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {**wav2vec2.Config.neutral, "num_ctc_classes": ()}

    num_buckets: int = 320
    max_bucket_distance: int = 800
    model_type: str = "wavlm"


def describe(c: Any, names: Collection[str]) -> tuple[EncoderSpec, list[tuple[int, int, int]]]:
    """The encoder of a configuration, and the convolutions before it."""
    choose("adapter_attn_dim", c.adapter_attn_dim, (None,))
    spec, convs = wav2vec2.describe(c, names)
    distances = RelativeSpec(c.num_buckets, c.max_bucket_distance)
    return replace(spec, layer=partial(_layer, distances)), convs


def _layer(distances: RelativeSpec, spec: EncoderSpec, number: int) -> GatedLayer:
    return GatedLayer(spec, None if number else distances)


FAMILY = wav2vec2.family(
    "wavlm",
    Config,
    ARCHITECTURES,
    WavLMModel,
    describe=describe,
)
