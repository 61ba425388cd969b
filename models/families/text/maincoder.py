"""Maincoder (Maincode, 2025): LLaMA with norms of q and k after neighbours are rotated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("MaincoderForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    model_type: str = "maincoder"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        assert a.rotary is not None
        rotary = replace(a.rotary, interleaved=True)
        return replace(a, norm=plain.norm, norm_last=True, rotary=rotary)

    return each_attention(plain, changed)


FAMILY = Family(
    model_types=("maincoder",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("maincoder",),
    gguf=replace(llama.GGUF, model_type="maincoder", architecture=ARCHITECTURES[0], transforms={}),
)
