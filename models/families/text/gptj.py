"""GPT-J (Wang and Komatsuzaki, 2021): parallel parts, interleaved rotary, one layer norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import RotarySpec

ARCHITECTURES = ("GPTJForCausalLM",)
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    layers="h",
    before_attention="ln_1",
    attention="attn",
    before_mlp=None,
    norm="ln_f",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    n_positions: int = 2048
    n_inner: int | None = None
    rotary_dim: int | None = 64
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "gptj"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    head = c.n_embd // max(c.n_head, 1)
    attention = AttentionSpec(
        c.n_head,
        c.n_head,
        head,
        rotary=RotarySpec(c.rotary_dim or head, interleaved=True),
        names=AttentionNames(out="out_proj"),
    )
    mlp = MLPSpec(
        c.n_inner or 4 * c.n_embd,
        c.activation_function,
        gated=False,
        bias=True,
        names=MLPNames(up="fc_in", down="fc_out"),
    )
    return DecoderSpec(
        c.vocab_size,
        c.n_embd,
        c.n_positions,
        (LayerSpec(attention, mlp),) * c.n_layer,
        NormSpec("layer", c.layer_norm_epsilon),
        parallel=True,
        tied=bool(c.tie_word_embeddings),
        head_bias=True,
        names=NAMES,
    )


FAMILY = Family(
    model_types=("gptj",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
