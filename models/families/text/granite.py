"""Granite 3 (Granite Team, 2024): LLaMA with multipliers of embedding, parts, scores and logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, halves
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("GraniteForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0
    model_type: str = "granite"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if not c.logits_scaling:
        raise FormatError("config.json: logits_scaling is 0; logits are divided by it")
    plain = each_attention(llama.describe(c), lambda _, a: replace(a, scale=c.attention_multiplier))
    return replace(
        plain,
        embedding_scale=c.embedding_multiplier,
        residual_scale=c.residual_multiplier,
        logits_scale=1 / c.logits_scaling,
    )


# llama.cpp's converter reorders the rows of q and k for its order of rotary pairs.
GGUF = Architecture(
    "granite",
    "GraniteForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "embedding_multiplier": "embedding_scale",
        "residual_multiplier": "residual_scale",
        "attention_multiplier": "attention.scale",
        "logits_scaling": "logit_scale",
    },
    transforms={"q_proj": halves("num_attention_heads"), "k_proj": halves("num_key_value_heads")},
)


def minicpm(config: dict[str, Any]) -> None:
    """MiniCPM (Hu et al., 2024) has the first one's multipliers, where a file says none."""
    heads = max(config["num_attention_heads"], 1)
    head = config.get("head_dim") or config["hidden_size"] // heads
    config.setdefault("embedding_multiplier", 12.0)
    config.setdefault("residual_multiplier", 1.4 / max(config["num_hidden_layers"], 1) ** 0.5)
    config.setdefault("logits_scaling", config["hidden_size"] / 256)
    config.setdefault("attention_multiplier", max(head, 1) ** -0.5)


FAMILY = Family(
    model_types=("granite",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("granite", "minicpm"),
    gguf=GGUF,
    gguf_others={"minicpm": replace(GGUF, adjust=minicpm)},
)
