"""OLMoE (Muennighoff et al., 2024): a mixture of experts, norms of all q and all k."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec

ARCHITECTURES = ("OlmoeForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    clip_qkv: float | None = None
    num_experts: int = 64
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = False
    max_position_embeddings: int = 4096
    model_type: str = "olmoe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(a, norm=plain.norm, norm_over="all", clip=c.clip_qkv)

    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        normalized=c.norm_topk_prob,
    )
    plain = each_attention(plain, changed)
    return replace(plain, layers=tuple(replace(layer, mlp=experts) for layer in plain.layers))


GGUF = Architecture(
    "olmoe",
    "OlmoeForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",  # llama.cpp does not read attention.clamp_kqv
    },
)

FAMILY = Family(
    model_types=("olmoe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    refused=("sliding_window",),
    gguf_types=("olmoe",),
    gguf=GGUF,
)
