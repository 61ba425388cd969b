"""Cohere's Command R (2024): parallel parts, one layer norm without bias, scaled logits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("CohereForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    layer_norm_eps: float = 1e-5
    logit_scale: float | None = 0.0625
    use_qk_norm: bool = False
    tie_word_embeddings: bool | None = True
    max_position_embeddings: int = 8192
    model_type: str = "cohere"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        assert a.rotary is not None
        norm = NormSpec("layer", c.layer_norm_eps) if c.use_qk_norm else None
        return replace(a, rotary=replace(a.rotary, interleaved=True), norm=norm, norm_over="each")

    return replace(
        each_attention(llama.describe(c), changed),
        norm=NormSpec("layer", c.layer_norm_eps, bias=False),
        parallel=True,
        logits_scale=1.0 if c.logit_scale is None else c.logit_scale,
        names=DecoderNames(before_mlp=None),
    )


GGUF = Architecture(
    "cohere",
    "CohereForCausalLM",
    keys={
        "layer_norm_eps": "attention.layer_norm_epsilon",
        "logit_scale": "logit_scale",
    },
    decoder=DecoderNames(before_mlp=None),
    adjust=lambda config: config.update(use_qk_norm=config["attention_norms"]),
)

FAMILY = Family(
    model_types=("cohere",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("command-r",),
    gguf=GGUF,
)
