"""LFM2 (Liquid AI, 2025): short convolutions, and attention in some layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.scans import CHANNELS
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.blocks.short_conv import ShortConvSpec
from rushlight.models.layers.building import decoder_builder, kinds_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("Lfm2ForCausalLM",)
NAMES = DecoderNames(
    norm="embedding_norm",
    before_attention="operator_norm",
    before_mlp="ffn_norm",
    mlp="feed_forward",
)
FED = MLPNames(gate="w1", up="w3", down="w2")
OWN = AttentionNames(out="out_proj", q_norm="q_layernorm", k_norm="k_layernorm")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int = 12288
    block_auto_adjust_ff_dim: bool = True
    block_ffn_dim_multiplier: float | None = 1.0
    block_multiple_of: int = 256
    head_dim: int | None = None
    max_position_embeddings: int = 128000
    norm_eps: float = 1e-5
    rope_theta: float = 1e6
    rope_parameters: Any = None
    rope_scaling: Any = None
    conv_bias: bool = False
    conv_L_cache: int = 3
    full_attn_idxs: Any = None
    layer_types: Any = None
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "lfm2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count, inner = c.num_hidden_layers, c.intermediate_size
    if c.block_auto_adjust_ff_dim:
        inner, step = int(2 * inner / 3), max(c.block_multiple_of, 1)
        if c.block_ffn_dim_multiplier is not None:
            inner = -(-int(c.block_ffn_dim_multiplier * inner) // step) * step
    full = range(count) if c.full_attn_idxs is None else c.full_attn_idxs
    convolved = kinds_of(c.layer_types, count, lambda i: i not in full, "conv")
    heads, norm = c.num_attention_heads, NormSpec("rms", c.norm_eps)
    head = c.head_dim or c.hidden_size // max(heads, 1)
    attention = AttentionSpec(
        heads, c.num_key_value_heads, head, norm=norm, names=OWN, rotary=rotary_of(vars(c), head)
    )
    conv, mlp = ShortConvSpec(c.hidden_size, c.conv_L_cache, c.conv_bias), MLPSpec(inner, names=FED)
    both = LayerSpec(attention, mlp), LayerSpec(conv, mlp, "conv")
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        tuple(both[is_convolved] for is_convolved in convolved),
        norm,
        names=NAMES,
        tied=bool(c.tie_word_embeddings),
    )


def gguf() -> Architecture:
    """A layer without heads of keys is a convolution."""

    def adjust(c: dict[str, Any]) -> None:
        heads = c["full_attn_idxs"]
        heads = heads.tolist() if isinstance(heads, np.ndarray) else heads
        if not isinstance(heads, list) or any(type(n) is not int or n < 0 for n in heads):
            raise FormatError(f"lfm2.attention.head_count_kv is {brief(heads)}; one for each layer")
        c.update(
            full_attn_idxs=[i for i, n in enumerate(heads) if n],
            block_auto_adjust_ff_dim=False,
            num_key_value_heads=max([1, *heads]),
        )

    def told(model: Any) -> dict[str, Any]:
        specs = [layer.attention for layer in model.spec.layers]
        return {
            "attention.head_count_kv": np.array(
                [getattr(spec, "kv_heads", 0) for spec in specs], np.int32
            ),
            "feed_forward_length": model.spec.layers[0].mlp.inner,
            "vocab_size": model.vocab_size,
        }

    layer = "model.layers.{}.conv."
    return Architecture(
        "lfm2",
        "Lfm2ForCausalLM",
        keys={
            "norm_eps": "attention.layer_norm_rms_epsilon",
            "conv_L_cache": "shortconv.l_cache",
            "full_attn_idxs": "attention.head_count_kv",
            "num_key_value_heads": "",
        },
        adjust=adjust,
        decoder=NAMES,
        attention=OWN,
        mlp=FED,
        metadata=told,
        transforms={"conv.conv.weight": CHANNELS},
        parts={
            "token_embd_norm": f"{NAMES.base}.{NAMES.norm}",
            "blk.{}.shortconv.conv": f"{layer}conv",
            "blk.{}.shortconv.in_proj": f"{layer}in_proj",
            "blk.{}.shortconv.out_proj": f"{layer}out_proj",
        },
    )


FAMILY = Family(
    model_types=("lfm2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("lfm2",),
    gguf=gguf(),
)
