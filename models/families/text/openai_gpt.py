"""GPT (Radford et al., 2018): GPT-2 with norms after the sums, and none at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("OpenAIGPTLMHeadModel",)
NAMES = DecoderNames(
    base="transformer",
    embedding="tokens_embed",
    positions="positions_embed",
    layers="h",
    before_attention="ln_1",
    attention="attn",
    before_mlp="ln_2",
    norm=None,
)
# Its own names of activations: its GELU is the approximation by tanh.
ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    n_positions: int = 512
    afn: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "openai-gpt"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("afn", c.afn, tuple(ACTIVATIONS))
    attention = AttentionSpec(
        c.n_head,
        c.n_head,
        c.n_embd // max(c.n_head, 1),
        bias=True,
        out_bias=True,
        fused="stacked",
        transposed=True,
        names=AttentionNames(qkv="c_attn", out="c_proj"),
    )
    mlp = MLPSpec(
        4 * c.n_embd,
        ACTIVATIONS[c.afn],
        gated=False,
        bias=True,
        transposed=True,
        names=MLPNames(up="c_fc", down="c_proj"),
    )
    return DecoderSpec(
        c.vocab_size,
        c.n_embd,
        c.n_positions,
        (LayerSpec(attention, mlp),) * c.n_layer,
        NormSpec("layer", c.layer_norm_epsilon),
        learned_positions=True,
        norm_sums=True,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("openai-gpt",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
