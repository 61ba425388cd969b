"""Jais (Sengupta et al., 2023): GPT-2 with ALiBi, a gated MLP, and scales by width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import gpt2
from rushlight.models.gguf.architecture import TRANSPOSED, Architecture
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec

ARCHITECTURES = ("JAISLMHeadModel",)
MLP = MLPNames(gate="c_fc2", up="c_fc", down="c_proj")


@dataclass
class Config(gpt2.Config):
    """The keys of config.json that the model depends on. Newer files say mup_X for a scale X."""

    activation_function: str = "swiglu"
    position_embedding_type: str = "alibi"
    embeddings_scale: float = 1.0
    mup_embeddings_scale: float | None = None
    width_scale: float = 1.0
    mup_width_scale: float | None = None
    mup_output_alpha: float = 1.0
    scale_qk_dot_by_d: bool = False
    mup_scale_qk_dot_by_d: bool | None = None
    model_type: str = "jais"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("activation_function", c.activation_function, ("swiglu",))
    choose("position_embedding_type", c.position_embedding_type, ("alibi",))
    by_width = c.mup_scale_qk_dot_by_d
    head = max(c.n_embd // max(c.n_head, 1), 1)
    whole = c.scale_qk_dot_by_d if by_width is None else by_width
    mlp = MLPSpec(c.n_inner or 4 * c.n_embd, bias=True, transposed=c.transposed, names=MLP)
    plain = with_mlps(gpt2.describe(replace(c, activation_function="gelu_new")), lambda _: mlp)
    embedded = c.embeddings_scale if c.mup_embeddings_scale is None else c.mup_embeddings_scale
    width = c.width_scale if c.mup_width_scale is None else c.mup_width_scale
    spec = replace(
        plain,
        learned_positions=False,
        embedding_scale=embedded,
        logits_scale=width * c.mup_output_alpha,
    )
    return each_attention(
        spec, lambda _, a: replace(a, alibi=8.0, scale=1 / head if whole else a.scale)
    )


def adjust(c: dict[str, Any]) -> None:
    """The scales are in a file's weights."""
    choose("attention.max_alibi_bias", c.get("alibi", 8.0), (8.0,))
    c.update(scale_qk_dot_by_d=True, transposed=False)


GGUF = Architecture(
    "jais",
    "JAISLMHeadModel",
    {**gpt2.GGUF.keys, "alibi": "attention.max_alibi_bias"},
    dict.fromkeys(("c_attn", "c_proj", "c_fc", "c_fc2"), TRANSPOSED),
    adjust=adjust,
    metadata=lambda model: {"attention.max_alibi_bias": 8.0},
    decoder=gpt2.NAMES,
    attention=gpt2.ATTENTION,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("jais",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=lambda name, config: name.endswith((".attn.bias", "relative_pe.slopes")),
    gguf_types=("jais",),
    gguf=GGUF,
)
