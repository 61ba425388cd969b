"""DiffLlama (Ye et al., 2024): LLaMA whose attention is the difference of two halves of heads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.blocks.differential import DifferentialSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("DiffLlamaForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"lambda_std_dev": ()}  # of training

    rms_norm_eps: float = 1e-5
    model_type: str = "diffllama"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    head = c.head_dim or c.hidden_size // max(c.num_attention_heads, 1)
    rotary = rotary_of(vars(c), head)
    attention = DifferentialSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.num_key_value_heads or c.num_attention_heads,
        head,
        rotary,
        c.rms_norm_eps,
        c.attention_bias,
    )
    layers = (LayerSpec(attention, layer.mlp, rotary=rotary) for layer in plain.layers)
    return replace(plain, layers=tuple(layers))


FAMILY = Family(
    model_types=("diffllama",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
