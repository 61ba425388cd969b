"""Phi 3, 3.5 and 4 (Abdin et al., 2024): LLaMA with fused projections and LongRoPE."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec

ARCHITECTURES = ("Phi3ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    original_max_position_embeddings: int = 4096
    partial_rotary_factor: float | None = None
    sliding_window: int | None = None
    max_position_embeddings: int = 4096
    model_type: str = "phi3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    names = AttentionNames(qkv="qkv_proj")
    plain = each_attention(
        llama.describe(c),
        lambda _, a: replace(a, fused="stacked", window=c.sliding_window, names=names),
    )
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, names=MLPNames(gate_up="gate_up_proj"))
    return replace(plain, layers=tuple(replace(layer, mlp=mlp) for layer in plain.layers))


GGUF = Architecture(
    "phi3",
    "Phi3ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "sliding_window": "attention.sliding_window",
        "original_max_position_embeddings": "rope.scaling.original_context_length",
    },
    attention=AttentionNames(qkv="qkv_proj"),
    mlp=MLPNames(gate_up="gate_up_proj"),
)

FAMILY = Family(
    model_types=("phi3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("phi3",),
    gguf=GGUF,
)
