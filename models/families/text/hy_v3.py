"""Hy3 (Tencent, 2026): Qwen3's attention, sigmoid experts with corrections, dense first layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import scored
from rushlight.models.layers.building import (
    decoder_builder,
    each_attention,
    sparse_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("HYV3ForCausalLM",)
FED = MLPNames(router="router.gate", shared="shared_mlp")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"enable_moe_fp32_combine": ()}  # sums are of float32

    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_theta: float = 11158840.0
    num_experts: int = 192
    num_experts_per_tok: int = 8
    num_shared_experts: int = 1
    moe_intermediate_size: int = 1536
    router_scaling_factor: float = 2.826
    mlp_layer_types: Any = None
    model_type: str = "hy_v3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    # No shared experts: the reference makes one of the dense layers' size.
    always = c.moe_intermediate_size * c.num_shared_experts or c.intermediate_size
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        shared=MLPSpec(always, c.hidden_act, bias=c.mlp_bias),
        names=FED,
        routing=RoutingSpec("sigmoid", correction="expert_bias", scale=c.router_scaling_factor),
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias)
    sparse = sparse_of(c.mlp_layer_types, c.num_hidden_layers, lambda i: i > 0)
    plain = each_attention(
        llama.describe(c), lambda _, a: replace(a, norm=NormSpec("rms", c.rms_norm_eps))
    )
    return with_mlps(plain, lambda i: experts if sparse[i] else dense)


def adjust(c: dict[str, Any]) -> None:
    """The first layers are dense."""
    first, count = c.pop("dense", 0), c["num_hidden_layers"]
    c["mlp_layer_types"] = ["dense" if i < first else "sparse" for i in range(count)]


def tell(model: Any) -> dict[str, Any]:
    """Which layers have experts, and how these are routed."""
    experts = [e for layer in model.spec.layers if isinstance(e := layer.mlp, ExpertsSpec)]
    shared = max((e.shared.inner for e in experts if e.shared), default=0)
    return {
        **scored(model),
        "expert_weights_norm": True,
        "expert_shared_feed_forward_length": shared,
        "leading_dense_block_count": len(model.spec.layers) - len(experts),
    }


GGUF = Architecture(
    "hy_v3",
    "HYV3ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "dense": "leading_dense_block_count",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "router_scaling_factor": "expert_weights_scale",
    },
    mlp=FED,
    adjust=adjust,
    metadata=tell,
    # The last is written.
    parts=dict.fromkeys(
        ("blk.{}.exp_probs_b.bias", "blk.{}.exp_probs_b"),
        "model.layers.{}.mlp.router.gate.expert_bias",
    ),
)

FAMILY = Family(
    model_types=("hy_v3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed("mlp.expert_bias", "mlp.router.gate.expert_bias"),
    gguf_types=("hy_v3",),
    gguf=GGUF,
)
