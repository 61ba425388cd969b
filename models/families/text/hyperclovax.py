"""HyperCLOVA X (NAVER, 2025): Granite with norms after the parts; logits are multiplied."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import granite
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec

ARCHITECTURES = ("HyperCLOVAXForCausalLM",)
AROUND = DecoderNames(after_attention="post_norm1", after_mlp="post_norm2")


@dataclass
class Config(granite.Config):
    """The keys of config.json that the model depends on."""

    attention_multiplier: float | None = None  # type: ignore[assignment]
    use_post_norm: bool = True
    model_type: str = "hyperclovax"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = granite.describe(replace(c, logits_scaling=1.0))
    names = AROUND if c.use_post_norm else DecoderNames()
    return replace(plain, logits_scale=c.logits_scaling, names=names)


FAMILY = Family(
    model_types=("hyperclovax",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
