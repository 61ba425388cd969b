"""ERNIE 4.5's dense models (Baidu, 2025): LLaMA with rotary positions in neighbouring pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Ernie4_5ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    use_bias: bool = False
    head_dim: int | None = 128
    tie_word_embeddings: bool | None = True
    max_position_embeddings: int = 131072
    rope_theta: float = 500000.0
    model_type: str = "ernie4_5"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.attention_bias = c.mlp_bias = c.use_bias

    def paired(layer: int, a: AttentionSpec) -> AttentionSpec:
        assert a.rotary is not None
        return replace(a, rotary=replace(a.rotary, interleaved=True))

    return each_attention(llama.describe(c), paired)


GGUF = Architecture(
    "ernie4_5",
    "Ernie4_5ForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    adjust=lambda config: config.update(use_bias=config["attention_bias"]),
)

FAMILY = Family(
    model_types=("ernie4_5",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("ernie4_5",),
    gguf=GGUF,
)
