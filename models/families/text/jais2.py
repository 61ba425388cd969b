"""Jais 2 (Inception, 2025): LLaMA with layer norms, biases, and a squared ReLU without a gate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Jais2ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    attention_bias: bool = True
    mlp_bias: bool = True
    hidden_act: str = "relu2"
    layer_norm_eps: float = 1e-5
    max_position_embeddings: int = 8192
    model_type: str = "jais2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False, bias=c.mlp_bias)
    plain = with_mlps(llama.describe(c), lambda _: mlp)
    return replace(plain, norm=NormSpec("layer", c.layer_norm_eps))


GGUF = Architecture(
    "jais2", "Jais2ForCausalLM", keys={"layer_norm_eps": "attention.layer_norm_epsilon"}
)

FAMILY = Family(
    model_types=("jais2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("jais2",),
    gguf=GGUF,
)
