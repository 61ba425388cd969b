"""GPT-2 (Radford et al., 2019): learned positions, layer norms, weights stored transposed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import TRANSPOSED, Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("GPT2LMHeadModel",)
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    positions="wpe",
    layers="h",
    before_attention="ln_1",
    attention="attn",
    before_mlp="ln_2",
    norm="ln_f",
)
ATTENTION, MLP = AttentionNames(qkv="c_attn", out="c_proj"), MLPNames(up="c_fc", down="c_proj")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("transposed",)

    vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    n_positions: int = 1024
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    reorder_and_upcast_attn: bool = False  # a matter of precision
    transposed: bool = True  # not in GGUF files
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "gpt2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    head = c.n_embd // max(c.n_head, 1)
    attention = AttentionSpec(
        c.n_head,
        c.n_head,
        head,
        bias=True,
        out_bias=True,
        fused="stacked",
        names=ATTENTION,
        transposed=c.transposed,
        scale=None if c.scale_attn_weights else 1.0,
    )
    mlp = MLPSpec(
        c.n_inner or 4 * c.n_embd,
        c.activation_function,
        gated=False,
        bias=True,
        transposed=c.transposed,
        names=MLP,
    )
    spec = DecoderSpec(
        c.vocab_size,
        c.n_embd,
        c.n_positions,
        (LayerSpec(attention, mlp),) * c.n_layer,
        NormSpec("layer", c.layer_norm_epsilon),
        learned_positions=True,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )
    if not c.scale_attn_by_inverse_layer_idx:
        return spec
    scale = attention.scale or max(head, 1) ** -0.5
    return each_attention(spec, lambda i, a: replace(a, scale=scale / (i + 1)))


GGUF = Architecture(
    "gpt2", "GPT2LMHeadModel", {
        "n_embd": "embedding_length", "n_layer": "block_count", "n_head": "attention.head_count",
        "n_positions": "context_length", "n_inner": "feed_forward_length",
        "layer_norm_epsilon": "attention.layer_norm_epsilon",
    }, dict.fromkeys(("c_attn", "c_proj", "c_fc"), TRANSPOSED),
    fixed={"transposed": False}, decoder=NAMES, attention=ATTENTION, mlp=MLP,
)  # fmt: skip

FAMILY = Family(
    model_types=("gpt2", "gpt-sw3"),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("gpt2",),
    gguf=GGUF,
)
