"""EXAONE 4 (LG AI Research, 2025): norms after each part; full layers know no positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec

ARCHITECTURES = ("Exaone4ForCausalLM",)
NAMES = DecoderNames(
    before_attention=None,
    after_attention="post_attention_layernorm",
    before_mlp=None,
    after_mlp="post_feedforward_layernorm",
)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    sliding_window: int | None = 4096
    sliding_window_pattern: Any = 4
    layer_types: Any = None
    model_type: str = "exaone4"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain, pattern = llama.describe(c), c.sliding_window_pattern
    every = len(pattern) if isinstance(pattern, str) else pattern or 0
    if not isinstance(every, int) or every < 0:
        raise FormatError(f"config.json: sliding_window_pattern is {brief(pattern)}")
    hybrid = c.sliding_window is not None
    within = kinds_of(
        c.layer_types, c.num_hidden_layers, lambda i: hybrid and every > 0 and (i + 1) % every != 0
    )

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            norm=plain.norm,
            rotary=a.rotary if within[layer] or not hybrid else None,
            window=c.sliding_window if within[layer] else None,
        )

    return replace(each_attention(plain, changed), names=NAMES)


def adjust(config: dict[str, Any]) -> None:
    """llama.cpp knows windows in the large model alone, by its number of layers."""
    if config["num_hidden_layers"] != 64:
        config["sliding_window"] = None


GGUF = Architecture(
    "exaone4",
    "Exaone4ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "sliding_window": "attention.sliding_window",
    },
    adjust=adjust,
    decoder=NAMES,
)

FAMILY = Family(
    model_types=("exaone4",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("exaone4",),
    gguf=GGUF,
)
