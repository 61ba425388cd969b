"""CodeGen (Nijkamp et al., 2022): GPT-J with one projection, in four blocks of q, v and k."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import gptj
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("CodeGenForCausalLM",)


@dataclass
class Config(gptj.Config):
    """The keys of config.json that the model depends on."""

    n_ctx: int | None = None
    model_type: str = "codegen"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    names = AttentionNames(qkv="qkv_proj", out="out_proj")
    return each_attention(gptj.describe(c), lambda _, a: replace(a, fused="quarters", names=names))


FAMILY = Family(
    model_types=("codegen",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
