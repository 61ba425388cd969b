"""Gemma (Gemma Team, 2024): LLaMA with weights of norms less 1, GELU, and a scaled embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import OFFSET, Architecture
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("GemmaForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 256
    tie_word_embeddings: bool | None = True
    hidden_act: str = "gelu_pytorch_tanh"
    hidden_activation: str | None = None
    max_position_embeddings: int = 8192
    model_type: str = "gemma"
    neutral = {"use_bidirectional_attention": (False,)}


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    # The first files said "gelu" and meant the approximation by tanh.
    usual = "gelu_pytorch_tanh" if c.hidden_act == "gelu" else c.hidden_act
    mlp = MLPSpec(c.intermediate_size, c.hidden_activation or usual, bias=c.mlp_bias)
    return replace(
        plain,
        layers=tuple(replace(layer, mlp=mlp) for layer in plain.layers),
        norm=NormSpec("rms", c.rms_norm_eps, offset=1.0),
        embedding_scale=c.hidden_size**0.5,
    )


NORMED = dict.fromkeys(("input_layernorm", "post_attention_layernorm", "norm"), OFFSET)
GGUF = Architecture(
    "gemma",
    "GemmaForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    transforms=NORMED,
)

FAMILY = Family(
    model_types=("gemma",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("gemma",),
    gguf=GGUF,
)
