"""RecurrentGemma (Griffin, De et al., 2024): gated linear recurrences, and windows of attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.griffin import GriffinSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("RecurrentGemmaForCausalLM",)
NAMES = DecoderNames(
    before_attention="temporal_pre_norm",
    attention="temporal_block",
    norm="final_norm",
    before_mlp="channel_pre_norm",
    mlp="mlp_block",
)
CONTEXT = 1 << 20  # the window bounds what is kept


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: Any = None  # hidden_size / num_attention_heads
    lru_width: int | None = None
    attention_window_size: int = 2048
    conv1d_width: int = 4
    block_types: Any = ("recurrent", "recurrent", "attention")
    logits_soft_cap: float = 30.0
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_parameters: Any = None
    rope_scaling: Any = None
    partial_rotary_factor: float = 0.5
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "recurrent_gemma"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    kinds, heads = c.block_types, max(c.num_attention_heads, 1)
    head = c.hidden_size // heads
    listed = isinstance(kinds, (list, tuple)) and len(kinds) > 0
    if not listed or {*map(str, kinds)} - {"recurrent", "attention"}:
        raise FormatError(f"config.json: block_types {brief(kinds)}: of recurrent and attention")
    attention = AttentionSpec(
        c.num_attention_heads,
        c.num_key_value_heads or heads,
        head,
        bias=c.attention_bias,
        out_bias=True,
        rotary=rotary_of(vars(c), head),
        window=c.attention_window_size,
    )
    griffin = GriffinSpec(
        c.hidden_size, c.lru_width or c.hidden_size, heads, c.conv1d_width, c.hidden_activation
    )
    mlp = MLPSpec(c.intermediate_size // 2, c.hidden_activation, bias=True)
    order = (kinds[i % len(kinds)] for i in range(c.num_hidden_layers))
    layers = tuple(LayerSpec(griffin if k == "recurrent" else attention, mlp) for k in order)
    mantissa, power = math.frexp(c.hidden_size**0.5)  # the published scale is bfloat16: eight bits
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        CONTEXT,
        layers,
        NormSpec("rms", c.rms_norm_eps, offset=1.0),
        embedding_scale=math.ldexp(round(mantissa * 256), power - 8),
        logits_softcap=c.logits_soft_cap,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("recurrent_gemma",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
