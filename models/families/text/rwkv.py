"""RWKV 4 (Peng et al., 2023): decaying averages in place of attention; transformers' names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.rwkv4 import RWKV4Spec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("RwkvForCausalLM",)
NAMES = DecoderNames(
    base="rwkv",
    embedding="embeddings",
    layers="blocks",
    norm="ln_out",
    head="head",
)
CONTEXT = 1 << 20  # there are no positions, so no length is too long


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = {"context_length": ()}

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    attention_hidden_size: int | None = None
    intermediate_size: int | None = None
    layer_norm_epsilon: float = 1e-5
    rescale_every: int = 6
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "rwkv"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    width = c.hidden_size
    layer = RWKV4Spec(
        width,
        width if c.attention_hidden_size is None else c.attention_hidden_size,
        4 * width if c.intermediate_size is None else c.intermediate_size,
        c.layer_norm_epsilon,
        c.rescale_every,
    )
    return DecoderSpec(
        c.vocab_size,
        width,
        CONTEXT,
        (LayerSpec(layer, None, name=""),) * c.num_hidden_layers,
        NormSpec("layer", layer.eps_at(c.num_hidden_layers, 1e-5)),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("rwkv",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="rwkv.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
