"""OPT (Zhang et al., 2022): learned positions after two unused rows, layer norms, ReLU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("OPTForCausalLM",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    ffn_dim: int
    max_position_embeddings: int = 2048
    do_layer_norm_before: bool = True
    word_embed_proj_dim: int | None = None
    activation_function: str = "relu"
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    _remove_final_layer_norm: bool = False
    layerdrop: float = 0.0  # training only
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "opt"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads, affine = c.num_attention_heads, c.layer_norm_elementwise_affine
    attention = AttentionSpec(
        heads,
        heads,
        c.hidden_size // max(heads, 1),
        bias=c.enable_bias,
        out_bias=c.enable_bias,
        names=AttentionNames(out="out_proj"),
    )
    mlp = MLPSpec(
        c.ffn_dim,
        c.activation_function,
        gated=False,
        bias=c.enable_bias,
        names=MLPNames(up="fc1", down="fc2"),
    )
    last = c.do_layer_norm_before and not c._remove_final_layer_norm
    names = DecoderNames(
        base="model.decoder",
        before_attention="self_attn_layer_norm",
        mlp="",
        before_mlp="final_layer_norm",
        norm="final_layer_norm" if last else None,
    )
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(attention, mlp),) * c.num_hidden_layers,
        NormSpec("layer", 1e-5, bias=affine, weight=affine),
        learned_positions=True,
        positions_offset=2,
        embedding_width=c.word_embed_proj_dim,
        norm_sums=not c.do_layer_norm_before,
        tied=bool(c.tie_word_embeddings),
        names=names,
    )


FAMILY = Family(
    model_types=("opt",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
