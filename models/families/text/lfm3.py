"""LFM3 (Liquid AI, 2026): LFM2 with windows of attention, gates of heads and norms after parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import lfm2
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.short_conv import ShortConvSpec
from rushlight.models.layers.building import FULL, SLIDING, decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("Lfm3ForCausalLM",)
NORMED = replace(lfm2.NAMES, after_attention="post_operator_norm", after_mlp="post_ffn_norm")
CONV = "conv"
# What rope_parameters says where config.json does not have it.
POSITIONS: dict[str, dict[str, Any]] = {
    FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int = 7680
    head_dim: int | None = 128
    max_position_embeddings: int = 128000
    norm_eps: float = 1e-5
    rope_theta: float = 1e6
    rope_scaling: Any = None  # in place of rope_parameters, in older files
    rope_parameters: Any = None
    conv_bias: bool = False
    conv_L_cache: int = 7
    layer_types: Any = None
    sliding_window: int | None = 256
    use_sandwich_norm: bool = True
    use_attention_gate: bool = True
    attention_bias: bool = False
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "lfm3"


def kinds(c: Config) -> list[str]:
    """The kind of each layer."""
    given = c.layer_types
    if given is None:
        turns = {2: FULL, 0: SLIDING}
        given = [turns.get(i % 4, CONV) if i else CONV for i in range(c.num_hidden_layers)]
    known = isinstance(given, list) and all(kind in (FULL, SLIDING, CONV) for kind in given)
    if not known or len(given) != c.num_hidden_layers:
        raise FormatError(
            f"config.json: layer_types is {brief(given)}; it must have {c.num_hidden_layers} "
            f"entries, each {FULL}, {SLIDING} or {CONV}"
        )
    return list(given)


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads, norm = c.num_attention_heads, NormSpec("rms", c.norm_eps)
    head = c.head_dim or c.hidden_size // max(heads, 1)
    mlp = MLPSpec(c.intermediate_size, names=lfm2.FED)
    conv = LayerSpec(ShortConvSpec(c.hidden_size, c.conv_L_cache, c.conv_bias), mlp, CONV)
    told = c.rope_scaling or c.rope_parameters or POSITIONS

    def attention(kind: str) -> LayerSpec:
        if not isinstance(told, dict) or not isinstance(told.get(kind), dict):
            raise FormatError(
                f"config.json: rope_parameters is {brief(told)}; it must have an object {kind!r}"
            )
        theta = {"rope_theta": c.rope_theta, "rope_scaling": None}
        shared = {**vars(c), **theta, "rope_parameters": told[kind]}
        block = AttentionSpec(
            heads,
            c.num_key_value_heads,
            head,
            bias=c.attention_bias,
            out_bias=c.attention_bias,
            norm=norm,
            rotary=rotary_of(shared, head),
            gate_over="head" if c.use_attention_gate else "",
            window=c.sliding_window if kind == SLIDING else None,
        )
        return LayerSpec(block, mlp)

    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        tuple(conv if kind == CONV else attention(kind) for kind in kinds(c)),
        norm,
        names=NORMED if c.use_sandwich_norm else lfm2.NAMES,
        tied=bool(c.tie_word_embeddings),
    )


FAMILY = Family(
    model_types=("lfm3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
