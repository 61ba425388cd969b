"""MiniMax M3's language model (MiniMax, 2026): attention to chosen blocks, limited gates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import checked
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.block_index import BlockIndexSpec
from rushlight.models.layers.building import (
    FULL,
    decoder_builder,
    each_attention,
    kinds_of,
    numbers_of,
    sparse_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.layers.shared_experts import SHARED
from rushlight.models.parts import stacked_experts

ARCHITECTURES = ("MiniMaxM3VLForCausalLM",)
BOTH = MLPNames(gate_up="gate_up_proj")
BLOCKS = "minimax_m3_sparse"
PUBLISHED = {
    "index_n_heads": "sparse_num_index_heads",
    "index_head_dim": "sparse_index_dim",
    "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
    "index_local_blocks": "sparse_local_block",
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    # partial_rotary_factor says the first; the others are of images.
    neutral = {"rotary_dim": (), "merged_hidden_size": (), "video_token_id": ()}

    num_key_value_heads: int | None = 4
    head_dim: int | None = 128
    max_position_embeddings: int = 524288
    rope_theta: float = 5000000.0
    partial_rotary_factor: float | None = None
    dense_intermediate_size: int = 12288
    shared_intermediate_size: int = 3072
    num_experts_per_tok: int = 4
    num_local_experts: int = 128
    routed_scaling_factor: float = 2.0
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0
    mlp_layer_types: Any = None
    layer_types: Any = None
    moe_layer_freq: Any = None  # this and the next in published files
    sparse_attention_config: Any = None
    index_n_heads: int = 4
    index_head_dim: int = 128
    index_block_size: int = 128
    index_topk_blocks: int = 16
    index_local_blocks: int = 1
    model_type: str = "minimax_m3_vl_text"


def _translate(c: Config) -> None:
    """Read what published files say by other keys."""
    told = c.sparse_attention_config or {}
    if not isinstance(told, dict):
        raise FormatError(
            f"config.json: sparse_attention_config is {brief(told)}; it must be an object"
        )
    for name, key in PUBLISHED.items():
        if key in told:
            label = f"config.json: sparse_attention_config.{key}"
            setattr(c, name, checked(label, name, "int", told[key]))
    for name, given, words in (
        ("layer_types", told.get("sparse_attention_freq"), (FULL, BLOCKS)),
        ("mlp_layer_types", c.moe_layer_freq, ("dense", "sparse")),
    ):
        if getattr(c, name) is None and given is not None:
            flags = numbers_of(f"what stands for {name}", given, kinds=(int, bool))
            setattr(c, name, [words[bool(flag)] for flag in flags])


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.hidden_act = "silu"  # whatever the file says
    _translate(c)
    count, norm = c.num_hidden_layers, NormSpec("rms", c.rms_norm_eps, offset=1.0)
    within = kinds_of(c.layer_types, count, lambda i: False, BLOCKS)
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: True)
    index = BlockIndexSpec(
        c.index_n_heads,
        c.index_head_dim,
        c.index_block_size,
        c.index_topk_blocks,
        c.index_local_blocks,
        norm,
    )

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            norm=norm,
            rotary=rotary_of(vars(c), a.head_dim),
            index=index if within[layer] else None,
        )

    def dense(inner: int) -> MLPSpec:
        return MLPSpec(inner, limit=c.swiglu_limit, alpha=c.swiglu_alpha, names=BOTH)

    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        shared=dense(c.shared_intermediate_size),
        routing=RoutingSpec(
            "sigmoid", correction="e_score_correction_bias", scale=c.routed_scaling_factor
        ),
        limit=c.swiglu_limit,
        alpha=c.swiglu_alpha,
        names=SHARED,
    )
    spec = with_mlps(
        each_attention(llama.describe(c), changed),
        lambda i: experts if sparse[i] else dense(c.dense_intermediate_size),
    )
    return replace(spec, norm=norm)


FAMILY = Family(
    model_types=("minimax_m3_vl_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    parts=stacked_experts(),
)
