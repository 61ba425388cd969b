"""HyperCLOVA X (NAVER, 2025): Granite with norms after the parts; logits are multiplied."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import granite, llama
from rushlight.models.layers.building import decoder_builder, each_attention
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
    plain = each_attention(llama.describe(c), lambda _, a: replace(a, scale=c.attention_multiplier))
    return replace(
        plain,
        embedding_scale=c.embedding_multiplier,
        residual_scale=c.residual_multiplier,
        logits_scale=c.logits_scaling,
        names=AROUND if c.use_post_norm else DecoderNames(),
    )


FAMILY = Family(
    model_types=("hyperclovax",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
