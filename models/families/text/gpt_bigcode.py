"""GPT-BigCode (StarCoder, SantaCoder; Li et al., 2023): GPT-2 with one head of keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import gpt2
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("GPTBigCodeForCausalLM",)


@dataclass
class Config(gpt2.Config):
    """The keys of config.json that the model depends on."""

    activation_function: str = "gelu_pytorch_tanh"
    multi_query: bool = True
    scale_attention_softmax_in_fp32: bool = True
    model_type: str = "gpt_bigcode"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = each_attention(
        gpt2.describe(c),
        lambda _, a: replace(
            a,
            transposed=False,
            kv_heads=1 if c.multi_query else a.heads,
            fused="stacked" if c.multi_query else "grouped",
        ),
    )

    def stored(layer: LayerSpec) -> LayerSpec:
        assert isinstance(layer.mlp, MLPSpec)
        return replace(layer, mlp=replace(layer.mlp, transposed=False))

    return replace(plain, layers=tuple(stored(layer) for layer in plain.layers))


GGUF = Architecture(
    "gpt_bigcode",
    "GPTBigCodeForCausalLM",
    gpt2.GGUF.keys,
    fixed={"multi_query": True},
    decoder=gpt2.NAMES,
    attention=gpt2.ATTENTION,
    mlp=gpt2.MLP,
)

FAMILY = Family(
    model_types=("gpt_bigcode",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("starcoder",),
    gguf=GGUF,
)
