"""Phi 1, 1.5 and 2 (Gunasekar et al., 2023): parallel parts, one layer norm, partial rotary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("PhiForCausalLM",)
NAMES = DecoderNames(before_mlp=None, norm="final_layernorm")
ATTENTION = AttentionNames(out="dense", q_norm="q_layernorm", k_norm="k_layernorm")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    max_position_embeddings: int = 2048
    hidden_act: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    partial_rotary_factor: float | None = None
    qk_layernorm: bool = False
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "phi"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    head = c.hidden_size // max(c.num_attention_heads, 1)
    attention = AttentionSpec(
        c.num_attention_heads,
        c.num_key_value_heads or c.num_attention_heads,
        head,
        bias=True,
        out_bias=True,
        rotary=rotary_of(vars(c), head, share=0.5),
        names=ATTENTION,
        norm=NormSpec("layer", c.layer_norm_eps) if c.qk_layernorm else None,
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
        NormSpec("layer", c.layer_norm_eps),
        parallel=True,
        tied=bool(c.tie_word_embeddings),
        head_bias=True,
        names=NAMES,
    )


GGUF = Architecture(
    "phi",
    "PhiForCausalLM",
    keys={"layer_norm_eps": "attention.layer_norm_epsilon"},
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLPNames(up="fc1", down="fc2"),
)

FAMILY = Family(
    model_types=("phi",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("phi2",),
    gguf=GGUF,
)
