"""Cohere's North (2026), its language model: Command R with bases for each kind of layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import cohere
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of, rotary_of_kind

ARCHITECTURES = ("CohereCompassForCausalLM",)


@dataclass
class Config(cohere.Config):
    """The keys of config.json that the model depends on."""

    # Of a head over classes, and of layers where all have one kind in any case.
    neutral = {"pooling": (), "sliding_window_pattern": ()}

    logit_scale: float | None = None
    sliding_window: int | None = 4096
    layer_types: Any = None
    model_type: str = "cohere_compass_text"


def _of_texts(settings: Any) -> Any:
    # Without how positions are shared among time, height and width, which are equal for texts.
    if not isinstance(settings, dict):
        return settings
    return {k: v for k, v in settings.items() if k not in ("mrope_section", "mrope_interleaved")}


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for.

    A kind of layer whose `rope_parameters` are null knows no positions.
    """
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: False)
    settings = c.rope_parameters if isinstance(c.rope_parameters, dict) else {}
    settings = {kind: _of_texts(value) for kind, value in _of_texts(settings).items()}
    c.rope_parameters = settings or None
    by_kind = not {FULL, SLIDING}.isdisjoint(settings)
    plain = cohere.describe(replace(c, rope_parameters=None) if by_kind else c)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        rotary = rotary_of(vars(c), a.head_dim) if not by_kind else None
        if by_kind and settings.get(kind, {}) is not None:
            rotary = rotary_of_kind(vars(c), a.head_dim, kind, c.rope_theta)
        return replace(a, rotary=rotary, window=c.sliding_window if within[layer] else None)

    return each_attention(plain, changed)


FAMILY = Family(
    model_types=("cohere_compass_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
