"""Gemma 2 (Gemma Team, 2024): Gemma with norms around each part, soft caps and windows in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma
from rushlight.models.gguf.architecture import OFFSET, Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec

ARCHITECTURES = ("Gemma2ForCausalLM",)
NAMES = DecoderNames(
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)


@dataclass
class Config(gemma.Config):
    """The keys of config.json that the model depends on."""

    query_pre_attn_scalar: float = 256
    sliding_window: int | None = 4096
    layer_types: Any = None
    attn_logit_softcapping: float | None = 50.0
    final_logit_softcapping: float | None = 30.0
    model_type: str = "gemma2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda layer: layer % 2 == 0)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            scale=c.query_pre_attn_scalar**-0.5,
            softcap=c.attn_logit_softcapping,
            window=c.sliding_window if within[layer] else None,
        )

    return replace(
        each_attention(gemma.describe(c), changed),
        names=NAMES,
        logits_softcap=c.final_logit_softcapping,
    )


def adjust(config: dict[str, Any]) -> None:
    """Scores are scaled by a head's width, in the largest model (46 layers) by that of all."""
    heads = max(config["num_attention_heads"], 1)
    largest = config["num_hidden_layers"] == 46
    width = config["hidden_size"] // heads if largest else config.get("head_dim")
    config["query_pre_attn_scalar"] = width or config["hidden_size"] // heads


AROUND = dict.fromkeys(("pre_feedforward_layernorm", "post_feedforward_layernorm"), OFFSET)
GGUF = Architecture(
    "gemma2",
    "Gemma2ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "sliding_window": "attention.sliding_window",
        "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    },
    transforms={**gemma.NORMED, **AROUND},
    adjust=adjust,
    decoder=NAMES,
)

FAMILY = Family(
    model_types=("gemma2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("gemma2",),
    gguf=GGUF,
)
