"""ERNIE 4.5's mixtures of experts (Baidu, 2025): softmax scores, with corrections to choose by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import ernie4_5
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import CORRECTED
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.layers.shared_experts import SHARED
from rushlight.models.parts import Split

ARCHITECTURES = ("Ernie4_5_MoeForCausalLM",)
CORRECTION = "e_score_correction_bias"


@dataclass
class Config(ernie4_5.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = None
    moe_intermediate_size: int = 1536
    moe_k: int = 6
    moe_num_experts: int = 64
    moe_num_shared_experts: int = 2
    moe_layer_start_index: int = 1
    moe_layer_end_index: Any = -1
    moe_layer_interval: int = 1
    moe_norm_min: float = 1e-12
    model_type: str = "ernie4_5_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    always = c.moe_intermediate_size * c.moe_num_shared_experts
    experts = ExpertsSpec(
        c.moe_num_experts,
        c.moe_k,
        c.moe_intermediate_size,
        c.hidden_act,
        shared=MLPSpec(always, c.hidden_act, bias=c.use_bias) if always else None,
        names=SHARED,
        routing=RoutingSpec(correction=CORRECTION, least=c.moe_norm_min),
    )
    plain = replace(ernie4_5.describe(c), head_bias=c.use_bias)
    dense = plain.layers[0].mlp if plain.layers else experts
    assert dense is not None
    last = c.num_hidden_layers - 1 if c.moe_layer_end_index == -1 else c.moe_layer_end_index

    def sparse(i: int) -> bool:
        chosen = (i + 1) % max(c.moe_layer_interval, 1) == 0
        return bool(chosen and c.moe_layer_start_index <= i <= last)

    return with_mlps(plain, lambda i: experts if sparse(i) else dense)


def tell(model: Any) -> dict[str, Any]:
    """The size of the experts of every token."""
    shared = [getattr(layer.mlp, "shared", None) for layer in model.spec.layers]
    return {"expert_shared_feed_forward_length": max((s.inner for s in shared if s), default=0)}


GGUF = Architecture(
    "ernie4_5_moe",
    "Ernie4_5_MoeForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "moe_num_experts": "expert_count",
        "moe_k": "expert_used_count",
        "moe_layer_interval": "interleave_moe_layer_step",
        "moe_layer_start_index": "leading_dense_block_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "moe_num_shared_experts": "expert_shared_count",
    },
    mlp=SHARED,
    adjust=ernie4_5.GGUF.adjust,
    metadata=tell,
    parts=CORRECTED,
)

FAMILY = Family(
    model_types=("ernie4_5_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={
        f"mlp.moe_statics.{CORRECTION}": Split(
            {f"mlp.gate.{CORRECTION}": lambda t: t.reshape(-1)}, lambda t: t.reshape(1, -1)
        )
    },
    gguf_types=("ernie4_5-moe",),
    gguf=GGUF,
)
