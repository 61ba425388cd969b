"""StarCoder2 (Lozhkov et al., 2024): grouped queries in a window, layer norms, no gate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Starcoder2ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    hidden_act: str = "gelu_pytorch_tanh"
    norm_epsilon: float = 1e-5
    sliding_window: int | None = None
    use_bias: bool = True
    embedding_dropout: float = 0.0
    residual_dropout: float = 0.0
    tie_word_embeddings: bool | None = True
    max_position_embeddings: int = 4096
    model_type: str = "starcoder2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.attention_bias = c.use_bias
    plain = each_attention(llama.describe(c), lambda _, a: replace(a, window=c.sliding_window))
    mlp = MLPSpec(
        c.intermediate_size,
        c.hidden_act,
        gated=False,
        bias=c.use_bias,
        names=MLPNames(up="c_fc", down="c_proj"),
    )
    return replace(
        plain,
        layers=tuple(replace(layer, mlp=mlp) for layer in plain.layers),
        norm=NormSpec("layer", c.norm_epsilon),
    )


GGUF = Architecture(
    "starcoder2",
    "Starcoder2ForCausalLM",
    keys={"norm_epsilon": "attention.layer_norm_epsilon"},
    mlp=MLPNames(up="c_fc", down="c_proj"),
    adjust=lambda config: config.update(use_bias=config["attention_bias"]),
)

FAMILY = Family(
    model_types=("starcoder2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("starcoder2",),
    gguf=GGUF,
)
