"""GPT-Neo (Black et al., 2021): GPT-2 whose layers attend to all tokens and a window in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder, kinds_by_pairs
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("GPTNeoForCausalLM",)
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    positions="wpe",
    layers="h",
    before_attention="ln_1",
    attention="attn.attention",
    before_mlp="ln_2",
    norm="ln_f",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    max_position_embeddings: int = 2048
    intermediate_size: int | None = None
    attention_types: Any = None
    attention_layers: Any = None  # the same, one entry per layer
    window_size: int = 256
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    resid_dropout: float = 0.0
    embed_dropout: float = 0.0
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "gpt_neo"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    pairs = c.attention_types or [[["global", "local"], c.num_layers // 2]]
    if c.attention_layers:
        pairs = [[c.attention_layers, 1]]
    kinds = kinds_by_pairs("attention_types", pairs, c.num_layers, ("global", "local"))
    attention = AttentionSpec(
        c.num_heads,
        c.num_heads,
        c.hidden_size // max(c.num_heads, 1),
        out_bias=True,
        scale=1.0,
        names=AttentionNames(out="out_proj"),
    )
    local = replace(attention, window=c.window_size)
    mlp = MLPSpec(
        c.intermediate_size or 4 * c.hidden_size,
        c.activation_function,
        gated=False,
        bias=True,
        names=MLPNames(up="c_fc", down="c_proj"),
    )
    layers = tuple(LayerSpec(local if kind == "local" else attention, mlp) for kind in kinds)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        layers,
        NormSpec("layer", c.layer_norm_epsilon),
        learned_positions=True,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("gpt_neo",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
