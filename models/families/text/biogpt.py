"""BioGPT (Luo et al., 2022): a scaled embedding, learned positions after two rows, layer norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("BioGptForCausalLM",)
NAMES = DecoderNames(
    base="biogpt",
    before_attention="self_attn_layer_norm",
    before_mlp="final_layer_norm",
    mlp="",
    norm="layer_norm",
    head="output_projection",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    # Of training, and one that the code never reads.
    neutral = {"layerdrop": (), "layer_norm_eps": ()}

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int = 1024
    hidden_act: str = "gelu"
    scale_embedding: bool = True
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "biogpt"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads = c.num_attention_heads
    attention = AttentionSpec(
        heads,
        heads,
        c.hidden_size // max(heads, 1),
        bias=True,
        out_bias=True,
        names=AttentionNames(out="out_proj"),
    )
    mlp = MLPSpec(
        c.intermediate_size,
        c.hidden_act,
        gated=False,
        bias=True,
        names=MLPNames(up="fc1", down="fc2"),
    )
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(attention, mlp),) * c.num_hidden_layers,
        NormSpec("layer", 1e-5),
        learned_positions=True,
        positions_offset=2,
        embedding_scale=c.hidden_size**0.5 if c.scale_embedding else 1.0,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("biogpt",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="biogpt.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
