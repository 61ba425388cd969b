"""Granite with windows and sinks (IBM, 2026): a base of positions for each layer, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.models.families.family import Family
from rushlight.models.families.text import granite
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import listed
from rushlight.models.layers.building import by_bases, decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

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
    """The description of the decoder that a configuration asks for."""
    bases = by_bases(c)
    return each_attention(granite.describe(c), lambda i, a: replace(bases(i, a), sinks=True))


def adjust(c: dict[str, Any]) -> None:
    """Which layers have windows, and which know positions."""
    windows.adjust_windows(c)
    known = listed(ROTATED, c.get("each_rotary"), bool, [])
    if known:
        base = float(c.get("rope_theta", 10000.0))
        c["layer_rope_theta"] = [base if rotated else 0.0 for rotated in known]


def tell(model: Any) -> dict[str, Any]:
    """Which layers have windows, and which know positions."""
    known = [layer.attention.rotary is not None for layer in model.spec.layers]
    return windows.tell_windows(model) | {ROTATED: np.array(known)}


ROTATED = "attention.rope_pattern"
GGUF = replace(
    granite.GGUF,
    model_type="granite_swa",
    architecture=ARCHITECTURES[0],
    keys={**granite.GGUF.keys, **windows.KEYS, "each_rotary": ROTATED},
    adjust=adjust,
    metadata=tell,
    parts={"blk.{}.attn_sinks.weight": "model.layers.{}.self_attn.sinks"},
)

FAMILY = Family(
    model_types=("granite_swa",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("granite_swa",),
    gguf=GGUF,
)
