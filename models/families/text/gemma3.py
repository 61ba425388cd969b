"""Gemma 3's language model (Gemma Team, 2025): norms of q and k, five windows to one full layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma2
from rushlight.models.gguf.architecture import OFFSET, Architecture
from rushlight.models.gguf.encoders import embedding_architecture
from rushlight.models.layers import building
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("Gemma3ForCausalLM",)


@dataclass
class Config(gemma2.Config):
    """The keys of config.json that the model depends on."""

    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None
    rope_theta: float = 1000000.0
    rope_local_base_freq: float = 10000.0
    sliding_window_pattern: int = 6
    max_position_embeddings: int = 131072
    use_bidirectional_attention: bool | None = False
    model_type: str = "gemma3_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every = max(c.sliding_window_pattern, 1)
    within = building.kinds_of(c.layer_types, c.num_hidden_layers, lambda i: (i + 1) % every != 0)
    c.layer_types = [building.SLIDING if is_sliding else building.FULL for is_sliding in within]
    plain = gemma2.describe(c)
    thetas = {building.FULL: c.rope_theta, building.SLIDING: c.rope_local_base_freq}

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = building.SLIDING if within[layer] else building.FULL
        rotary = rotary_of_kind(vars(c), a.head_dim, kind, thetas[kind], kind == building.FULL)
        # The published model has the key, and does not read it.
        a = replace(a, rotary=rotary, norm=plain.norm, softcap=None)
        if not c.use_bidirectional_attention:
            return a
        # The window is that of both sides together.
        return replace(a, causal=False, window=a.window and a.window // 2 + 1)

    return building.each_attention(plain, changed)


def adjust(config: dict[str, Any]) -> None:
    """Scores are scaled by a head's width, in the largest model (62 layers) by that of all."""
    gemma2.adjust(config)
    if config["num_hidden_layers"] == 62:
        config["query_pre_attn_scalar"] = config["hidden_size"] // config["num_attention_heads"]


GGUF = Architecture(
    "gemma3_text",
    "Gemma3ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "sliding_window": "attention.sliding_window",
        "sliding_window_pattern": "attention.sliding_window_pattern",
        "rope_local_base_freq": "rope.freq_base_swa",
    },
    transforms={**gemma2.GGUF.transforms, "q_norm": OFFSET, "k_norm": OFFSET},
    adjust=adjust,
    decoder=gemma2.NAMES,
)


def both_ways(config: dict[str, Any]) -> None:
    """What a file of embeddings means: attention to both sides, whatever it says."""
    config.pop("is_causal", None)
    config["use_bidirectional_attention"] = True
    adjust(config)


EMBEDDING = embedding_architecture(GGUF, "Gemma3TextModel", adjust=both_ways)

FAMILY = Family(
    model_types=("gemma3_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=building.decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("gemma3", "gemma-embedding"),
    gguf=GGUF,
    gguf_others={"gemma-embedding": EMBEDDING},
)
