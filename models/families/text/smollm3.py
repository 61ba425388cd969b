"""SmolLM3 (Hugging Face, 2025): LLaMA whose every fourth layer knows no positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2
from rushlight.models.gguf.architecture import Architecture, halves
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("SmolLM3ForCausalLM",)


@dataclass
class Config(qwen2.Config):
    """The keys of config.json that the model depends on."""

    rope_theta: float = 2000000.0
    sliding_window: int | None = None
    no_rope_layers: Any = None
    no_rope_layer_interval: int = 4
    tie_word_embeddings: bool | None = True
    max_position_embeddings: int = 32768
    model_type: str = "smollm3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every, count = max(c.no_rope_layer_interval, 1), c.num_hidden_layers
    # One entry per layer: 1 for a layer with rotary positions.
    rotated = c.no_rope_layers or [int((i + 1) % every != 0) for i in range(count)]
    if not isinstance(rotated, list) or len(rotated) != count or not set(rotated) <= {0, 1}:
        raise FormatError(
            f"config.json: no_rope_layers is {brief(rotated)}; it must have {count} entries 0 or 1"
        )
    windows = c.use_sliding_window and c.sliding_window is not None
    within = kinds_of(c.layer_types, count, lambda i: windows and not rotated[i])
    return each_attention(
        qwen2.describe(c),
        lambda i, a: replace(
            a,
            bias=c.attention_bias,
            out_bias=c.attention_bias,
            rotary=a.rotary if rotated[i] else None,
            window=c.sliding_window if within[i] else None,
        ),
    )


# llama.cpp's converter reorders the rows of q and k for its order of rotary pairs.
GGUF = Architecture(
    "smollm3",
    "SmolLM3ForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    transforms={"q_proj": halves("num_attention_heads"), "k_proj": halves("num_key_value_heads")},
)

FAMILY = Family(
    model_types=("smollm3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("smollm3",),
    gguf=GGUF,
)
