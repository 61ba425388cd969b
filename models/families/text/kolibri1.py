"""Kolibri (Aleph Alpha, 2026): norms around each part, experts by sigmoids, windows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import Split

ARCHITECTURES = ("Kolibri1ForCausalLM",)
NAMES = DecoderNames(after_attention="post_attn_norm", after_mlp="post_ffn_norm")
# The authors' name of the numbers that experts are chosen by -> where the router has them.
CORRECTION = ".moe.router.expert_bias", ".mlp.gate.e_score_correction_bias"


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: int = field(default=1, kw_only=True)  # no layer is dense
    num_key_value_heads: int | None = 4
    head_dim: int | None = 128
    max_position_embeddings: int = 262144
    sliding_window: int | None = 513
    layer_types: Any = None
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts: int = 384
    num_experts_per_tok: int = 6
    norm_topk_prob: bool = False
    model_type: str = "kolibri1"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: (i + 1) % 5 != 0)
    plain = llama.describe(c)
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        normalized=c.norm_topk_prob,
        shared=MLPSpec(c.shared_expert_intermediate_size, c.hidden_act),
        routing=RoutingSpec("sigmoid", correction="e_score_correction_bias", by_logits=True),
        names=MLPNames(shared="shared_experts"),
    )

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            norm=plain.norm,
            rotary=a.rotary if within[layer] or c.sliding_window is None else None,
            window=c.sliding_window if within[layer] else None,
        )

    return replace(with_mlps(each_attention(plain, changed), lambda _: experts), names=NAMES)


def _same(t: Tensor) -> Tensor:
    return t


FAMILY = Family(
    model_types=("kolibri1",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={CORRECTION[0]: Split({CORRECTION[1]: _same}, _same)},
)
