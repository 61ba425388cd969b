"""ChatGLM2, 3, GLM-4-9B in its first form and CodeGeeX4 (GLM Team, 2024), by their own code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture, Transform, stacked
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import RotarySpec

ARCHITECTURES = ("ChatGLMModel", "ChatGLMForConditionalGeneration")
ATTENTION = AttentionNames(qkv="query_key_value", out="dense")
MLP = MLPNames(gate_up="dense_h_to_4h", down="dense_4h_to_h")
NAMES = DecoderNames(
    base="transformer",
    embedding="embedding.word_embeddings",
    layers="encoder.layers",
    attention="self_attention",
    norm="encoder.final_layernorm",
    head="transformer.output_layer",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    padded_vocab_size: int
    hidden_size: int
    num_layers: int
    num_attention_heads: int
    ffn_hidden_size: int
    kv_channels: int = 128
    seq_length: int = 2048
    layernorm_epsilon: float = 1e-5
    rmsnorm: bool = True
    multi_query_attention: bool = False
    multi_query_group_num: int = 1
    add_bias_linear: bool = False
    add_qkv_bias: bool = False
    post_layer_norm: bool = True
    rope_ratio: float = 1.0
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "chatglm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads, few = c.num_attention_heads, c.multi_query_attention
    # rope_ratio multiplies theta, and half of each head is rotated, in neighbouring pairs.
    attention = AttentionSpec(
        heads,
        c.multi_query_group_num if few else heads,
        c.kv_channels,
        bias=c.add_bias_linear or c.add_qkv_bias,
        out_bias=c.add_bias_linear,
        fused="stacked" if few else "grouped",
        names=ATTENTION,
        rotary=RotarySpec(c.kv_channels // 2, 10000.0 * c.rope_ratio, interleaved=True),
    )
    mlp = MLPSpec(c.ffn_hidden_size, "silu", bias=c.add_bias_linear, names=MLP)
    return DecoderSpec(
        c.padded_vocab_size,
        c.hidden_size,
        c.seq_length,
        (LayerSpec(attention, mlp),) * c.num_layers,
        NormSpec("rms" if c.rmsnorm else "layer", c.layernorm_epsilon),
        tied=bool(c.tie_word_embeddings),
        names=NAMES if c.post_layer_norm else replace(NAMES, norm=None),
    )


def gguf() -> Architecture:
    """Keys of its own; all q are before all k, as where heads share keys."""

    def adjust(c: dict[str, Any]) -> None:
        c.update(
            num_layers=c["num_hidden_layers"],
            padded_vocab_size=c.pop("vocab_size", 0),
            rope_ratio=c.get("rope_theta", 10000.0) / 10000,
            multi_query_attention=True,
            multi_query_group_num=c["num_key_value_heads"],
            add_qkv_bias=c["attention_bias"],
            kv_channels=c.get("head_dim") or c["hidden_size"] // max(c["num_attention_heads"], 1),
        )

    def rows(t: Any, c: Any) -> Any:
        return stacked(t, {**c, "stacked": c["multi_query_attention"]})

    return Architecture(
        "chatglm",
        "ChatGLMModel",
        keys={
            "layernorm_epsilon": "attention.layer_norm_rms_epsilon",
            "ffn_hidden_size": "feed_forward_length",
            "seq_length": "context_length",
        },
        adjust=adjust,
        decoder=NAMES,
        attention=ATTENTION,
        mlp=MLP,
        share=0.5,
        transforms={ATTENTION.qkv: Transform(lambda t, c: t, rows)},
        metadata=lambda model: {
            "attention.key_length": model.config.kv_channels,
            "vocab_size": model.vocab_size,
        },
    )


FAMILY = Family(
    model_types=("chatglm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    refused=(
        "apply_residual_connection_post_layernorm",
        "original_rope",
        "pre_seq_len",
        "prefix_projection",
        "quantization_bit",
    ),
    gguf_types=("chatglm",),
    gguf=gguf(),
)
