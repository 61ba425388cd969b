"""replit-code 1 (Replit, 2023): MPT (MosaicML) with its first spelling of keys and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import checked
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("ReplitLM", "ReplitLMForCausalLM")
ATTENTION = AttentionNames(qkv="Wqkv", out="out_proj", q_norm="q_ln", k_norm="k_ln")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    max_seq_len: int = 2048
    mlp_ratio: int = 4
    alibi: bool = False
    alibi_bias_max: int = 8
    attn_qk_ln: bool = False
    attn_clip_qkv: float | None = None
    softmax_scale: float | None = None
    logit_scale: Any = None
    no_bias: bool = False
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "replit_lm"


def described(c: Any, a: dict[str, Any], inner: int, mlp: MLPNames, n: DecoderNames) -> DecoderSpec:
    """The decoder by the keys `a` of its attention; `inner`: the width of the MLP."""
    alibi, bias, clip = a.get("alibi", True), not c.no_bias, a.get("clip_qkv")
    norm = NormSpec("layer", getattr(c, "layer_norm_epsilon", 1e-5), bias=bias)
    if a.get("qk_ln") and clip:
        raise FormatError("config.json: clip_qkv is not supported beside qk_ln")
    attention = AttentionSpec(
        c.n_heads,
        a.get("kv_n_heads") or c.n_heads,
        c.d_model // max(c.n_heads, 1),
        bias=bias,
        out_bias=bias,
        fused="stacked",
        norm=norm if a.get("qk_ln") else None,
        norm_over="all",
        alibi=float(a.get("alibi_bias_max") or 8) if alibi else None,
        scale=a.get("softmax_scale"),
        clip=clip or None,
        names=ATTENTION,
    )
    scale = max(c.d_model, 1) ** -0.5 if c.logit_scale == "inv_sqrt_d_model" else c.logit_scale
    scale = checked("config.json: logit_scale", "logit_scale", "float | None", scale)
    layer = LayerSpec(attention, MLPSpec(inner, "gelu", gated=False, bias=bias, names=mlp))
    return DecoderSpec(
        c.vocab_size,
        c.d_model,
        c.max_seq_len,
        (layer,) * c.n_layers,
        norm,
        learned_positions=not alibi and getattr(c, "learned_pos_emb", True),
        names=n,
        logits_scale=1.0 if scale is None else scale,
        tied=bool(c.tie_word_embeddings),
    )


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    values = {"qk_ln": c.attn_qk_ln, "clip_qkv": c.attn_clip_qkv, **vars(c)}
    names = DecoderNames(
        base="transformer",
        embedding="wte",
        positions="wpe",
        layers="blocks",
        before_attention="ln_1",
        attention="attn",
        before_mlp="ln_2",
        norm="ln_f",
    )
    mlp = MLPNames(up="mlp_up", down="mlp_down")
    return described(c, values, c.mlp_ratio * c.d_model, mlp, names)


FAMILY = Family(
    model_types=("replit_lm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    refused=("attn_uses_sequence_id", "prefix_lm"),
)
