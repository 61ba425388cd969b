"""LFM2's mixtures of experts (Liquid AI, 2025): short convolutions, sigmoid experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import lfm2
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import scored
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("Lfm2MoeForCausalLM",)


@dataclass
class Config(lfm2.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: int = 7168
    block_auto_adjust_ff_dim: bool = False
    moe_intermediate_size: int = 1792
    num_dense_layers: int = 2
    num_experts: int = 32
    num_experts_per_tok: int = 4
    use_expert_bias: bool = True
    routed_scaling_factor: float = 1.0
    norm_topk_prob: bool = True
    tie_embedding: bool | None = None
    model_type: str = "lfm2_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if c.tie_embedding is not None:
        c.tie_word_embeddings = c.tie_embedding
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        normalized=c.norm_topk_prob,
        names=lfm2.FED,
        routing=RoutingSpec(
            "sigmoid",
            correction="expert_bias" if c.use_expert_bias else "",
            scale=c.routed_scaling_factor,
        ),
    )
    dense = MLPSpec(c.intermediate_size, names=lfm2.FED)
    return with_mlps(lfm2.describe(c), lambda i: dense if i < c.num_dense_layers else experts)


def gguf() -> Architecture:
    """That of the dense models, with experts."""
    plain = lfm2.gguf()

    def adjust(c: dict[str, Any]) -> None:
        plain.adjust(c)
        full = c.pop("full_attn_idxs")
        count = range(c["num_hidden_layers"])
        c["layer_types"] = ["full_attention" if i in full else "conv" for i in count]

    def told(model: Any) -> dict[str, Any]:
        return {**plain.metadata(model), **scored(model)}

    return replace(
        plain,
        model_type="lfm2_moe",
        architecture="Lfm2MoeForCausalLM",
        keys={
            **plain.keys,
            "num_dense_layers": "leading_dense_block_count",
            "num_experts": "expert_count",
            "num_experts_per_tok": "expert_used_count",
            "moe_intermediate_size": "expert_feed_forward_length",
        },
        adjust=adjust,
        metadata=told,
        parts={
            **plain.parts,
            "blk.{}.exp_probs_b.bias": "model.layers.{}.feed_forward.gate.expert_bias",
        },
    )


FAMILY = Family(
    model_types=("lfm2_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed("feed_forward.expert_bias", "feed_forward.gate.expert_bias"),
    gguf_types=("lfm2moe",),
    gguf=gguf(),
)
