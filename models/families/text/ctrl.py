"""CTRL (Keskar et al., 2019): sinusoidal positions, a scaled embedding, norms before the parts."""

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

ARCHITECTURES = ("CTRLLMHeadModel",)
NAMES = DecoderNames(
    base="transformer",
    embedding="w",
    layers="h",
    before_attention="layernorm1",
    attention="multi_head_attention",
    before_mlp="layernorm2",
    mlp="ffn",
    norm="layernorm",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    n_embd: int
    dff: int
    n_layer: int
    n_head: int
    n_positions: int = 256
    layer_norm_epsilon: float = 1e-6
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "ctrl"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    # The key is of the last norm alone; those of the layers have this number in any case.
    choose("layer_norm_epsilon", c.layer_norm_epsilon, (1e-6,))
    attention = AttentionSpec(
        c.n_head,
        c.n_head,
        c.n_embd // max(c.n_head, 1),
        bias=True,
        out_bias=True,
        names=AttentionNames("Wq", "Wk", "Wv", "dense"),
    )
    mlp = MLPSpec(c.dff, "relu", gated=False, bias=True, names=MLPNames(up="0", down="2"))
    return DecoderSpec(
        c.vocab_size,
        c.n_embd,
        c.n_positions,
        (LayerSpec(attention, mlp),) * c.n_layer,
        NormSpec("layer", 1e-6),
        waves="paired",
        embedding_scale=c.n_embd**0.5,
        tied=bool(c.tie_word_embeddings),
        head_bias=True,
        names=NAMES,
    )


FAMILY = Family(
    model_types=("ctrl",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
