"""gpt-oss (OpenAI, 2025): attention sinks, windows in turn, experts with a clamped gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import experts_in_turn

ARCHITECTURES = ("GptOssForCausalLM",)
NAMES = MLPNames(router="router")
YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 64
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_theta: float = 150000.0
    attention_bias: bool = True
    sliding_window: int | None = 128
    layer_types: Any = None
    num_experts_per_tok: int = 4
    num_local_experts: int = 128
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0
    quantization_config: Any = None
    model_type: str = "gpt_oss"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    quantization = c.quantization_config or {"quant_method": "mxfp4"}
    choose(
        "quantization_config",
        isinstance(quantization, dict) and quantization.get("quant_method"),
        ["mxfp4"],
    )
    c.rope_parameters = c.rope_parameters or (None if c.rope_scaling else YARN)
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda layer: layer % 2 == 0)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(a, sinks=True, window=c.sliding_window if within[layer] else None)

    plain = each_attention(llama.describe(c), changed)
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        names=NAMES,
        routing=RoutingSpec(bias=True),
        bias=True,
        limit=c.swiglu_limit,
        alpha=c.swiglu_alpha,
    )
    return with_mlps(plain, lambda _: experts)


GGUF = Architecture(
    "gpt_oss",
    "GptOssForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_local_experts": "expert_count",
        "intermediate_size": "expert_feed_forward_length",
        "num_experts_per_tok": "expert_used_count",
        "sliding_window": "attention.sliding_window",
    },
    mlp=NAMES,
    adjust=lambda c: c.setdefault("rope_scaling", {"rope_type": "default"}),
    parts={
        "blk.{}.attn_sinks.weight": "model.layers.{}.self_attn.sinks",
        "blk.{}.post_attention_norm": "model.layers.{}.post_attention_layernorm",
    },
)

FAMILY = Family(
    model_types=("gpt_oss",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=experts_in_turn(),
    gguf_types=("gpt-oss",),
    gguf=GGUF,
)
