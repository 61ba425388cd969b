"""Trinity (Arcee AI, 2025): windows with positions, full layers without, gates on attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import scored
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("AfmoeForCausalLM",)
NAMES = DecoderNames(
    after_attention="post_attention_layernorm",
    before_mlp="pre_mlp_layernorm",
    after_mlp="post_mlp_layernorm",
)
FED = MLPNames(router="router.gate", shared="shared_experts")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 128
    max_position_embeddings: int = 16384
    rms_norm_eps: float = 1e-5
    moe_intermediate_size: int = 1408
    num_dense_layers: int = 1
    num_experts: int = 64
    num_experts_per_tok: int = 6
    num_shared_experts: int = 2
    route_scale: float = 1.0
    global_attn_every_n_layers: int = 4
    sliding_window: int | None = 1024
    layer_types: Any = None
    mup_enabled: bool | None = False
    model_type: str = "afmoe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every = max(c.global_attn_every_n_layers, 1)
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: (i + 1) % every != 0)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            norm=NormSpec("rms", c.rms_norm_eps),
            gate_over="each",
            rotary=a.rotary if within[layer] else None,
            window=c.sliding_window if within[layer] else None,
        )

    always = c.moe_intermediate_size * c.num_shared_experts
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        shared=MLPSpec(always, c.hidden_act),
        names=FED,
        routing=RoutingSpec("sigmoid", correction="expert_bias", scale=c.route_scale),
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    spec = with_mlps(
        each_attention(llama.describe(c), changed),
        lambda i: dense if i < c.num_dense_layers else experts,
    )
    scale = c.hidden_size**0.5 if c.mup_enabled else 1.0
    return replace(spec, names=NAMES, embedding_scale=scale)


GGUF = Architecture(
    "afmoe",
    "AfmoeForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "sliding_window": "attention.sliding_window",
        "num_dense_layers": "leading_dense_block_count",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "num_shared_experts": "expert_shared_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "route_scale": "expert_weights_scale",
    },
    fixed={"mup_enabled": True},
    decoder=NAMES,
    mlp=FED,
    metadata=lambda model: scored(model) | {"expert_weights_norm": True},
    parts={
        "blk.{}.attn_gate": "model.layers.{}.self_attn.gate_proj",
        "blk.{}.exp_probs_b.bias": "model.layers.{}.mlp.router.gate.expert_bias",
    },
)

FAMILY = Family(
    model_types=("afmoe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed("mlp.expert_bias", "mlp.router.gate.expert_bias"),
    gguf_types=("afmoe",),
    gguf=GGUF,
)
