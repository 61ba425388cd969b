"""OLMo (Groeneveld et al., 2024): LLaMA with layer norms that have no parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, halves
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("OlmoForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    clip_qkv: float | None = None
    layer_norm_epsilon: float = 1e-5  # as GGUF has it; config.json does not say it
    model_type: str = "olmo"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = each_attention(llama.describe(c), lambda _, a: replace(a, clip=c.clip_qkv))
    return replace(plain, norm=NormSpec("layer", c.layer_norm_epsilon, bias=False, weight=False))


# llama.cpp's converter reorders the rows of q and k for its order of rotary pairs.
GGUF = Architecture(
    "olmo",
    "OlmoForCausalLM",
    keys={
        "clip_qkv": "attention.clamp_kqv",
        "layer_norm_epsilon": "attention.layer_norm_epsilon",
    },
    transforms={"q_proj": halves("num_attention_heads"), "k_proj": halves("num_key_value_heads")},
)

FAMILY = Family(
    model_types=("olmo",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("olmo",),
    gguf=GGUF,
)
