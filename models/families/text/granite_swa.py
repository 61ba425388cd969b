"""Granite with windows and sinks (IBM, 2026): a base of positions for each layer, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import granite
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    FLOATS,
    decoder_builder,
    each_attention,
    kinds_of,
    numbers_of,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("GraniteSWAForCausalLM",)


@dataclass
class Config(granite.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 4
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 8192
    tie_word_embeddings: bool | None = True
    sliding_window: int | None = 128
    layer_types: Any = None
    layer_rope_theta: Any = None
    model_type: str = "granite_swa"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for.

    A base of 0 in `layer_rope_theta` is of a layer that knows no positions.
    """
    count, thetas = c.num_hidden_layers, c.layer_rope_theta
    within = kinds_of(c.layer_types, count, lambda i: i % 4 != 0)
    if thetas is not None:
        thetas = numbers_of("layer_rope_theta", thetas, count, FLOATS)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        rotary = a.rotary
        if thetas is not None:
            own = {"rope_theta": float(thetas[layer])}
            told = (c.rope_scaling or c.rope_parameters or {}) | own
            values = {**vars(c), "rope_scaling": None, "rope_parameters": told}
            rotary = rotary_of(values, a.head_dim) if thetas[layer] else None
        return replace(
            a, rotary=rotary, sinks=True, window=c.sliding_window if within[layer] else None
        )

    return each_attention(granite.describe(c), changed)


FAMILY = Family(
    model_types=("granite_swa",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
