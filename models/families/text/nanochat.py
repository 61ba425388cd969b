"""nanochat (Karpathy, 2025): norms without weights, of the embedding too; heads turn backward."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("NanoChatForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    hidden_act: str = "relu2"
    final_logit_softcapping: float | None = 15.0
    model_type: str = "nanochat"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    mlp = MLPSpec(
        c.intermediate_size, c.hidden_act, gated=False, names=MLPNames(up="fc1", down="fc2")
    )
    plain = each_attention(
        llama.describe(c),
        lambda _, a: replace(
            a, unit=c.rms_norm_eps, rotary=a.rotary and replace(a.rotary, backward=True)
        ),
    )
    return replace(
        with_mlps(plain, lambda _: mlp),
        norm=NormSpec("rms", c.rms_norm_eps, weight=False),
        logits_softcap=c.final_logit_softcapping,
        names=DecoderNames(embedding_norm="embedding_norm"),  # no norm has a tensor
    )


FAMILY = Family(
    model_types=("nanochat",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
