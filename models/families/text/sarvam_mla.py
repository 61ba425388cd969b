"""Sarvam 105B (Sarvam AI, 2026): DeepSeek V3 with its experts in one group."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v3
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.shared_experts import predicts_further

ARCHITECTURES = ("DeepseekV3ForCausalLM", "SarvamMLAForCausalLM")


@dataclass
class Config(deepseek_v3.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"num_mtp_layers": (), "q_head_dim": ()}  # the latter is a sum of others

    q_lora_rank: int | None = None
    n_group: int | None = 1
    topk_group: int | None = 1
    first_k_dense_replace: int = 1
    n_routed_experts: int = 128
    model_type: str = "sarvam_mla"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    told = c.rope_scaling
    if isinstance(told, dict) and "deepseek_yarn" in (told.get("type"), told.get("rope_type")):
        # Another name of yarn.
        c.rope_scaling = {k: v for k, v in told.items() if k != "type"} | {"rope_type": "yarn"}
    return deepseek_v3.describe(c)


FAMILY = Family(
    model_types=("sarvam_mla",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=predicts_further,
)
