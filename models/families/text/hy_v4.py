"""Hy4 (Tencent, 2026): latent attention with sinks, gates and an index, between several streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v3
from rushlight.models.layers.blocks.hyper import HyperSpec
from rushlight.models.layers.blocks.indexed import IndexSpec
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import decoder_builder, sparse_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.shared_experts import experts_of, routing_of
from rushlight.models.parts import renamed, stacked_experts

ARCHITECTURES = ("HYV4ForCausalLM",)


@dataclass
class Config(deepseek_v3.Config):
    """The keys of config.json that the model depends on."""

    # The kinds of layers are all one.
    neutral = {"learnable_sink_init": (), "layer_types": ()}

    rms_norm_eps: float = 1e-5
    n_group: int | None = 1
    topk_group: int | None = 1
    moe_intermediate_size: int = 768
    num_experts_per_tok: int = 8
    routed_scaling_factor: float = 2.827
    max_position_embeddings: int = 262144
    rope_interleave: bool | None = False
    q_lora_rank: int | None = 1536
    qk_nope_head_dim: int = 192
    v_head_dim: int = 256
    mlp_layer_types: Any = None
    index_topk: int = 2048
    index_head_dim: int = 128
    index_n_heads: int = 16
    indexer_types: Any = None
    hc_mult: int = 4
    hc_magnitude: float = 2.0
    hc_eps: float = 1e-6
    swiglu_limit: float = 10.0
    model_type: str = "hy_v4"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count, c.num_key_value_heads = c.num_hidden_layers, c.num_attention_heads
    kinds = c.indexer_types or ["full" if i % 4 == 1 or not i else "shared" for i in range(count)]
    known = isinstance(kinds, list) and all(kind in ("full", "shared") for kind in kinds)
    if not known or len(kinds) != count or "full" not in kinds[:1]:
        raise FormatError(
            f"config.json: indexer_types is {brief(kinds)}; it must have {count} entries, full or "
            "shared, the first of them full"
        )
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: i > 0)
    experts = replace(
        experts_of(c, routing_of(c)),
        limit=c.swiglu_limit,
        alpha=1.0,
        lift=0.0,
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    index = IndexSpec(c.index_n_heads, c.index_head_dim, c.index_topk, c.rms_norm_eps)
    spec, layers = deepseek_v3.describe(c), []
    for i, layer in enumerate(spec.layers):
        assert isinstance(layer.attention, LatentSpec)
        attention = replace(
            layer.attention,
            gate="linear_gate",
            sinks="learnable_sink_param",
            index=replace(index, own=kinds[i] == "full"),
        )
        layers.append(replace(layer, attention=attention, mlp=experts if sparse[i] else dense))
    streams = HyperSpec(c.hc_mult, c.hc_magnitude, c.hc_eps, c.rms_norm_eps)
    return replace(spec, layers=tuple(layers), streams=streams)


FAMILY = Family(
    model_types=("hy_v4",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    # What transformers saves has that name of gates too.
    parts={
        **stacked_experts(),
        **renamed("mlp.linear_gate.weight", "mlp.gate_proj.weight"),
        **renamed("shared_experts.linear_gate.weight", "shared_experts.gate_proj.weight"),
    },
)
