"""Ling (Ling Team, 2025): DeepSeekMoE's layers; version 2 has norms of q and k, sigmoids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, Regroup
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.layers.shared_experts import SHARED, predicts_further

ARCHITECTURES = ("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM")
NAMES = DecoderNames(embedding="word_embeddings", attention="attention")
INSIDE = AttentionNames(
    qkv="query_key_value", out="dense", q_norm="query_layernorm", k_norm="key_layernorm"
)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    own = ("apart",)

    partial_rotary_factor: float | None = 1.0
    use_bias: bool = False
    use_qkv_bias: bool = False
    use_qk_norm: bool = False
    norm_head: bool = False
    num_experts: int = 16
    num_experts_per_tok: int = 2
    num_shared_experts: int = 0
    moe_intermediate_size: int = 1408
    moe_shared_expert_intermediate_size: int | None = None
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = True
    score_function: str = "softmax"
    moe_router_enable_expert_bias: bool | None = None
    n_group: int | None = 1
    topk_group: int | None = 1
    routed_scaling_factor: float = 1.0
    apart: bool = False  # matrices of q, k and v: in GGUF files
    model_type: str = "bailing_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("norm_head", c.norm_head, (False,))
    choose("score_function", c.score_function, ("softmax", "sigmoid"))
    plain, soft = llama.describe(c), c.score_function == "softmax"

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            bias=c.use_qkv_bias,
            out_bias=c.use_bias,
            fused="" if c.apart else "stacked",
            norm=plain.norm if c.use_qk_norm else None,
            rotary=rotary_of(vars(c), a.head_dim),
            names=INSIDE,
        )

    corrected = not soft if c.moe_router_enable_expert_bias is None else (
        c.moe_router_enable_expert_bias
    )  # fmt: skip
    always = (c.moe_shared_expert_intermediate_size or c.moe_intermediate_size) * (
        c.num_shared_experts
    )
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        c.norm_topk_prob,
        MLPSpec(always, c.hidden_act) if always else None,
        names=SHARED,
        routing=RoutingSpec(
            "softmax" if soft else "sigmoid",
            correction="expert_bias" if corrected else "",
            groups=1 if soft else c.n_group or 1,
            kept=1 if soft else c.topk_group or 1,
            best=1 if soft else 2,
            scale=1.0 if soft else c.routed_scaling_factor,
        ),
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    spec = with_mlps(
        each_attention(plain, changed),
        lambda i: dense if i < c.first_k_dense_replace else experts,
    )
    return replace(spec, names=NAMES)


KEYS = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "first_k_dense_replace": "leading_dense_block_count",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "num_shared_experts": "expert_shared_count",
    "norm_topk_prob": "expert_weights_norm",
}


def split(c: Mapping[str, Any], t: Tensor) -> Sequence[Tensor]:
    """The matrices of q, k and v, from one."""
    head = t.shape[0] // (c["num_attention_heads"] + 2 * c["num_key_value_heads"])
    q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    return t[:q].contiguous(), t[q : q + kv].contiguous(), t[q + kv :].contiguous()


GGUF = Architecture(
    "bailing_moe",
    ARCHITECTURES[0],
    keys=KEYS,
    fixed={"apart": True},
    transforms=llama.GGUF.transforms,
    decoder=NAMES,
    attention=INSIDE,
    mlp=SHARED,
    regroups=(
        Regroup(
            ("query_key_value.weight",),
            ("q_proj.weight", "k_proj.weight", "v_proj.weight"),
            None,
            split,
        ),
    ),
)


def adjust(c: dict[str, Any]) -> None:
    """What all files of the second version have."""
    c.update(score_function="sigmoid", use_qk_norm=True, use_qkv_bias=c["attention_bias"])
    c["moe_router_enable_expert_bias"] = any("expert_bias" in name for name in c["names"])


SECOND = Architecture(
    "bailing_moe",
    ARCHITECTURES[1],
    keys=KEYS
    | {
        "n_group": "expert_group_count",
        "topk_group": "expert_group_used_count",
        "routed_scaling_factor": "expert_weights_scale",
        "moe_shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    },
    adjust=adjust,
    metadata=lambda model: {"expert_gating_func": np.uint32(2)},
    decoder=NAMES,
    attention=INSIDE,
    mlp=SHARED,
    parts={"blk.{}.exp_probs_b.bias": "model.layers.{}.mlp.gate.expert_bias"},
    fits=lambda model: model.config.use_qk_norm,
)

FAMILY = Family(
    model_types=("bailing_moe", "bailing_moe_v2"),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=predicts_further,
    gguf_types=("bailingmoe", "bailingmoe2"),
    gguf=GGUF,
    gguf_others={"bailingmoe2": SECOND},
)
