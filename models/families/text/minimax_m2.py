"""MiniMax M2 (MiniMax, 2025): norms of all q and k, part of each head rotated, sigmoid experts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import CORRECTED, scored
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("MiniMaxM2ForCausalLM",)
NAMES, FED = DecoderNames(mlp="block_sparse_moe"), MLPNames("w1", "w3", "w2")
CORRECTION = "e_score_correction_bias"


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 196608
    rope_theta: float = 5000000.0
    partial_rotary_factor: float | None = None
    rotary_dim: int | None = None
    num_experts_per_tok: int = 8
    num_local_experts: int = 256
    model_type: str = "minimax_m2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        share = 1.0 if c.rotary_dim is None else c.rotary_dim / max(a.head_dim, 1)
        return replace(
            a,
            norm=NormSpec("rms", c.rms_norm_eps),
            norm_over="all",
            rotary=rotary_of(vars(c), a.head_dim, share=share),
        )

    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        names=FED,
        routing=RoutingSpec("sigmoid", correction=CORRECTION),
    )
    plain = with_mlps(each_attention(llama.describe(c), changed), lambda _: experts)
    return replace(plain, names=NAMES)


GGUF = Architecture(
    "minimax_m2",
    "MiniMaxM2ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "intermediate_size": "expert_feed_forward_length",
    },
    decoder=NAMES,
    mlp=FED,
    metadata=scored,
    adjust=lambda c: c.update(rotary_dim=round(c["partial_rotary_factor"] * c["head_dim"])),
    parts={k: v.replace(".mlp.", ".block_sparse_moe.") for k, v in CORRECTED.items()},
)

FAMILY = Family(
    model_types=("minimax_m2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=renamed(f"block_sparse_moe.{CORRECTION}", f"block_sparse_moe.gate.{CORRECTION}"),
    gguf_types=("minimax-m2",),
    gguf=GGUF,
)
