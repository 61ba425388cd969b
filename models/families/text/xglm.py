"""XGLM (Lin et al., 2021): BioGPT's layers with sinusoidal positions, in many languages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import biogpt
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("XGLMForCausalLM",)
NAMES = replace(biogpt.NAMES, base="model", head="lm_head")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = {"layerdrop": (), "init_std": ()}  # of training

    vocab_size: int
    d_model: int
    ffn_dim: int
    num_layers: int
    attention_heads: int
    max_position_embeddings: int = 2048
    activation_function: str = "gelu"
    scale_embedding: bool = True
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "xglm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    like = biogpt.Config(
        c.vocab_size,
        c.d_model,
        c.ffn_dim,
        c.num_layers,
        c.attention_heads,
        c.max_position_embeddings,
        c.activation_function,
        c.scale_embedding,
        c.tie_word_embeddings,
    )
    return replace(biogpt.describe(like), learned_positions=False, waves="even", names=NAMES)


FAMILY = Family(
    model_types=("xglm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
