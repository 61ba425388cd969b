"""DeepSeek V3.2 (DeepSeek, 2025): V3 whose queries attend to the keys that an indexer chooses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v3
from rushlight.models.layers.blocks.indexed import IndexSpec
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import decoder_builder, sparse_of
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.shared_experts import predicts_further

ARCHITECTURES = ("DeepseekV32ForCausalLM",)


@dataclass
class Config(deepseek_v3.Config):
    """The keys of config.json that the model depends on."""

    neutral = {
        "num_mtp_layers": (),
        # Names of one kind of layer.
        "layer_types": (),
    }

    max_position_embeddings: int = 163840
    index_topk: int = 2048
    index_head_dim: int = 128
    index_n_heads: int = 64
    mlp_layer_types: Any = None
    num_experts: int | None = None
    model_type: str = "deepseek_v32"


def index_of(c: Config) -> IndexSpec:
    """The index of a layer, whose first features are rotated."""
    sizes = c.index_n_heads, c.index_head_dim, c.index_topk
    return IndexSpec(*sizes, 1e-6, leading=True, interleaved=False)


def describe_with(c: Config, indexes: list[IndexSpec]) -> DecoderSpec:
    """The description of the decoder that a configuration asks for, with an indexer per layer."""
    c.n_routed_experts = c.n_routed_experts if c.num_experts is None else c.num_experts
    dense_first = c.first_k_dense_replace
    sparse = sparse_of(c.mlp_layer_types, c.num_hidden_layers, lambda i: i >= dense_first)
    plain = deepseek_v3.describe(replace(c, first_k_dense_replace=0))
    dense = MLPSpec(c.intermediate_size, c.hidden_act)

    def changed(layer: LayerSpec, is_sparse: bool, index: IndexSpec) -> LayerSpec:
        assert isinstance(layer.attention, LatentSpec)
        attention = replace(layer.attention, index=index)
        return replace(layer, attention=attention, mlp=layer.mlp if is_sparse else dense)

    return replace(plain, layers=tuple(map(changed, plain.layers, sparse, indexes)))


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return describe_with(c, [index_of(c)] * c.num_hidden_layers)


FAMILY = Family(
    model_types=("deepseek_v32",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=predicts_further,
)
