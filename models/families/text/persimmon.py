"""Persimmon (Elsen et al., 2023): fused projections, layer norms of heads, squared ReLU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("PersimmonForCausalLM",)
NAMES = DecoderNames(norm="final_layernorm")
ATTENTION = AttentionNames(
    qkv="query_key_value", out="dense", q_norm="q_layernorm", k_norm="k_layernorm"
)
MLP = MLPNames(up="dense_h_to_4h", down="dense_4h_to_h")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int = 16384
    hidden_act: str = "relu2"
    layer_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    partial_rotary_factor: float | None = None
    qk_layernorm: bool = True
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "persimmon"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads, norm = c.num_attention_heads, NormSpec("layer", c.layer_norm_eps)
    head = c.hidden_size // max(heads, 1)
    attention = AttentionSpec(
        heads,
        heads,
        head,
        bias=True,
        out_bias=True,
        fused="grouped",
        norm=norm if c.qk_layernorm else None,
        rotary=rotary_of(vars(c), head, share=0.5),
        names=ATTENTION,
    )
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False, bias=True, names=MLP)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(attention, mlp),) * c.num_hidden_layers,
        norm,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("persimmon",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
