"""Nemotron (NVIDIA, 2024): layer norms with weights less 1, squared ReLU, half heads rotated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import OFFSET, Architecture
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("NemotronForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 4096
    norm_eps: float = 1e-5
    partial_rotary_factor: float | None = None
    hidden_act: str = "relu2"
    model_type: str = "nemotron"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False, bias=c.mlp_bias)
    plain = with_mlps(llama.describe(c), lambda _: mlp)
    plain = each_attention(
        plain, lambda _, a: replace(a, rotary=rotary_of(vars(c), a.head_dim, share=0.5))
    )
    return replace(plain, norm=NormSpec("layer", c.norm_eps, offset=1.0))


GGUF = Architecture(
    "nemotron",
    "NemotronForCausalLM",
    keys={"norm_eps": "attention.layer_norm_epsilon"},
    transforms=dict.fromkeys(
        ("input_layernorm.weight", "post_attention_layernorm.weight", "norm.weight"), OFFSET
    ),
)

FAMILY = Family(
    model_types=("nemotron",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("nemotron",),
    gguf=GGUF,
)
