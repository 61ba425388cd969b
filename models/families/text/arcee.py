"""Arcee's AFM (Arcee AI, 2025): LLaMA whose MLP squares a ReLU and has no gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("ArceeForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    hidden_act: str = "relu2"
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5
    model_type: str = "arcee"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False, bias=c.mlp_bias)
    return with_mlps(llama.describe(c), lambda _: mlp)


def unbiased(c: dict[str, Any]) -> None:
    """llama.cpp reads no biases of this architecture."""
    c.update(attention_bias=False, mlp_bias=False)


GGUF = replace(llama.GGUF, model_type="arcee", architecture="ArceeForCausalLM", adjust=unbiased)

FAMILY = Family(
    model_types=("arcee",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("arcee",),
    gguf=GGUF,
)
