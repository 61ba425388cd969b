"""BLOOM (BigScience, 2022): ALiBi, a norm of the embedding, fused projections per head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import STACKED, Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("BloomForCausalLM",)
CONTEXT = 2048  # of its training; config.json often does not say it
NAMES = DecoderNames(
    base="transformer",
    embedding="word_embeddings",
    embedding_norm="word_embeddings_layernorm",
    layers="h",
    attention="self_attention",
    norm="ln_f",
)
ATTENTION = AttentionNames(qkv="query_key_value", out="dense")
MLP = MLPNames(up="dense_h_to_4h", down="dense_4h_to_h")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("stacked", "seq_length")

    vocab_size: int
    hidden_size: int
    n_layer: int
    n_head: int
    seq_length: int | None = None
    layer_norm_epsilon: float = 1e-5
    apply_residual_connection_post_layernorm: bool = False
    stacked: bool = False  # rows of q, of k, of v: in GGUF files
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "bloom"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    after = c.apply_residual_connection_post_layernorm
    choose("apply_residual_connection_post_layernorm", after, (False,))
    width, heads = c.hidden_size, c.n_head
    attention = AttentionSpec(
        heads,
        heads,
        width // max(heads, 1),
        bias=True,
        out_bias=True,
        alibi=8.0,
        fused="stacked" if c.stacked else "grouped",
        names=ATTENTION,
    )
    mlp = MLPSpec(4 * width, "gelu_pytorch_tanh", gated=False, bias=True, names=MLP)
    return DecoderSpec(
        c.vocab_size,
        width,
        c.seq_length or CONTEXT,
        (LayerSpec(attention, mlp),) * c.n_layer,
        NormSpec("layer", c.layer_norm_epsilon),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


GGUF = Architecture(
    "bloom",
    "BloomForCausalLM",
    keys={
        "layer_norm_epsilon": "attention.layer_norm_epsilon",
        "seq_length": "context_length",
        "n_head": "attention.head_count",
        "n_layer": "block_count",
    },
    transforms={"query_key_value": STACKED},
    fixed={"stacked": True},
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("bloom",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("bloom",),
    gguf=GGUF,
)
