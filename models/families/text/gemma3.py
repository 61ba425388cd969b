"""Gemma 3's language model (Gemma Team, 2025): norms of q and k, five windows to one full layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.text import gemma2
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import FULL, SLIDING, decoder_builder, kinds_of
from rushlight.models.layers.decoder import DecoderSpec, each_attention
from rushlight.models.layers.rotary import rotary_of

MODEL_TYPES = ("gemma3_text",)
TASKS = ("text-generation", "chat")
ARCHITECTURES = ("Gemma3ForCausalLM",)
BASE_PREFIX = "model."


@dataclass
class Config(gemma2.Config):
    """The keys of config.json that the model depends on."""

    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    rope_theta: float = 1000000.0
    rope_local_base_freq: float = 10000.0
    sliding_window_pattern: int = 6
    model_type: str = "gemma3_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every = max(c.sliding_window_pattern, 1)
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: (i + 1) % every != 0)
    c.layer_types = [SLIDING if one else FULL for one in within]
    plain = gemma2.describe(c)
    given: dict[str, Any] = vars(c)
    # Layers with a window have positions of their own, never scaled.
    local = {"rope_theta": c.rope_local_base_freq, "rope_parameters": c.rope_parameters}
    if SLIDING not in (c.rope_parameters or {}):
        local["rope_parameters"] = None

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        rotary = rotary_of(local if within[layer] else given, a.head_dim, kind)
        return replace(a, rotary=rotary, norm=plain.norm)

    return each_attention(plain, changed)


build = decoder_builder(Config, describe, ARCHITECTURES)
