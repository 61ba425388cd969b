"""InternLM3 (Shanghai AI Laboratory, 2025): LLaMA with biases everywhere or nowhere."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("InternLM3ForCausalLM", "LlamaForCausalLM")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 2
    head_dim: int | None = 128
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 32768
    model_type: str = "internlm3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if c.attention_bias != c.mlp_bias:
        raise FormatError(
            f"config.json: qkv_bias {c.attention_bias} beside bias {c.mlp_bias} is not supported; "
            "supported: both the same"
        )
    return llama.describe(c)


FAMILY = Family(
    model_types=("internlm3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
