"""A.X K2 (SK Telecom, 2026): DeepSeek V3.2 with gated norms, and gates beside the queries."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v32
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import decoder_builder, sparse_of
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.shared_experts import predicts_further

ARCHITECTURES = ("AXK2ForCausalLM",)


@dataclass
class Config(deepseek_v32.Config):
    """The keys of config.json that the model depends on."""

    first_k_dense_replace: int = 1
    n_routed_experts: int = 128
    n_group: int | None = None
    topk_group: int | None = None
    moe_intermediate_size: int = 512
    kv_lora_rank: int = 128
    q_lora_rank: int | None = 384
    qk_nope_head_dim: int = 64
    qk_rope_head_dim: int = 32
    v_head_dim: int = 64
    max_position_embeddings: int = 131072
    index_n_heads: int = 16
    gated_norm_rank: int = 16
    model_type: str = "axk2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    first, step = c.first_k_dense_replace, max(c.moe_layer_freq, 1)
    sparse = sparse_of(
        c.mlp_layer_types, c.num_hidden_layers, lambda i: i >= first and i % step == 0
    )
    c.mlp_layer_types = ["sparse" if experts else "dense" for experts in sparse]
    c.moe_layer_freq = 1
    plain = deepseek_v32.describe(c)
    norm = NormSpec("rms", c.rms_norm_eps)

    def changed(layer: LayerSpec) -> LayerSpec:
        assert isinstance(layer.attention, LatentSpec)
        attention, mlp = replace(layer.attention, joined=True), layer.mlp
        if not isinstance(mlp, ExpertsSpec):
            return replace(layer, attention=attention, before_mlp=norm)
        # Experts of groups that take no part have the score 0 here.
        return replace(
            layer,
            attention=attention,
            mlp=replace(mlp, routing=replace(mlp.routing, other=0.0)),
        )

    return replace(
        plain,
        layers=tuple(map(changed, plain.layers)),
        norm=replace(norm, gate=c.gated_norm_rank),
        last_norm=norm,
    )


FAMILY = Family(
    model_types=("axk2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=predicts_further,
)
