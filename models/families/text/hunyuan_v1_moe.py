"""Hunyuan's mixtures of experts (Tencent, 2025): the dense model with experts and a shared one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import hunyuan
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, numbers_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec

ARCHITECTURES = ("HunYuanMoEV1ForCausalLM",)
FED = MLPNames(router="gate.wg", shared="shared_mlp")


@dataclass
class Config(hunyuan.Config):
    """The keys of config.json that the model depends on."""

    num_experts: int = 1
    moe_topk: Any = 1
    model_type: str = "hunyuan_v1_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    each = [c.moe_topk] * c.num_hidden_layers if type(c.moe_topk) is int else c.moe_topk
    chosen = numbers_of("moe_topk", each, c.num_hidden_layers)
    shared = MLPSpec(c.intermediate_size, c.hidden_act)

    def experts(layer: int) -> ExpertsSpec:
        return ExpertsSpec(
            c.num_experts,
            chosen[layer],
            c.intermediate_size,
            c.hidden_act,
            shared=shared,
            names=FED,
        )

    return with_mlps(hunyuan.describe(c), experts)


GGUF = Architecture(
    "hunyuan_v1_moe",
    "HunYuanMoEV1ForCausalLM",
    attention=hunyuan.NAMES,
    mlp=FED,
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_experts": "expert_count",
        "moe_topk": "expert_used_count",
    },
    fixed={"attention_bias": False},
    metadata=lambda model: {
        "expert_shared_feed_forward_length": model.spec.layers[0].mlp.inner,
        "expert_feed_forward_length": model.spec.layers[0].mlp.inner,
        "expert_used_count": model.spec.layers[0].mlp.chosen,
    },
)

FAMILY = Family(
    model_types=("hunyuan_v1_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("hunyuan-moe",),
    gguf=GGUF,
)
