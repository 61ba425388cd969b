"""Qwen (Bai et al., 2023), within the length that it was trained for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("QWenLMHeadModel",)
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    layers="h",
    before_attention="ln_1",
    attention="attn",
    before_mlp="ln_2",
    norm="ln_f",
)
ATTENTION = AttentionNames(qkv="c_attn", out="c_proj")
MLP = MLPNames(gate="w2", up="w1", down="c_proj")


@dataclass
class Config:
    """The keys of config.json that the model depends on.

    Past `seq_length` published code changes positions and scores: the context ends there.
    """

    neutral = dict.fromkeys(("use_dynamic_ntk", "use_logn_attn", "max_position_embeddings"), ())

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    kv_channels: int = 128
    seq_length: int = 8192
    layer_norm_epsilon: float = 1e-6
    rotary_emb_base: float = 10000
    rotary_pct: float = 1.0
    no_bias: bool = True
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "qwen"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("no_bias", c.no_bias, (True,))
    choose("rotary_pct", c.rotary_pct, (1.0,))
    attention = AttentionSpec(
        c.num_attention_heads,
        c.num_attention_heads,
        c.kv_channels,
        bias=True,
        fused="stacked",
        rotary=rotary_of({"rope_theta": c.rotary_emb_base}, c.kv_channels),
        names=ATTENTION,
    )
    layer = LayerSpec(attention, MLPSpec(c.intermediate_size // 2, names=MLP))
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.seq_length,
        (layer,) * c.num_hidden_layers,
        NormSpec("rms", c.layer_norm_epsilon),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


GGUF = Architecture(
    "qwen",
    "QWenLMHeadModel",
    keys={
        "layer_norm_epsilon": "attention.layer_norm_rms_epsilon",
        "seq_length": "context_length",
        "max_position_embeddings": "",
        "rotary_emb_base": "rope.freq_base",
        "rope_theta": "",
        "head_dim": "",
    },
    adjust=lambda c: c.update(kv_channels=c["hidden_size"] // max(c["num_attention_heads"], 1)),
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("qwen",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=lambda name, config: name.endswith("rotary_emb.inv_freq"),
    gguf_types=("qwen",),
    gguf=GGUF,
)
