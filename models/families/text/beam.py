"""Beam (Reflection AI, 2026): sigmoid experts in groups, biased gates, sums scaled by depth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
    sparse_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind
from rushlight.models.layers.routing import RoutingSpec

ARCHITECTURES = ("BeamForCausalLM",)
NAMES = DecoderNames(
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
POWER = 0.1, 2048.0  # of queries without positions


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 8192
    sliding_window: int | None = 512
    moe_intermediate_size: int = 2560
    num_experts_per_tok: int = 8
    num_experts: int = 256
    norm_topk_prob: bool = True
    layer_types: Any = None
    mlp_layer_types: Any = None
    n_group: int | None = 8
    topk_group: int | None = 4
    routed_scaling_factor: float = 2.5
    final_logit_softcapping: float | None = 30.0
    model_type: str = "beam"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for.

    A kind of layer whose `rope_parameters` are null knows no positions.
    """
    count = c.num_hidden_layers
    within = kinds_of(c.layer_types, count, lambda i: (i + 1) % 6 != 0 and i + 1 < count)
    sparse = sparse_of(c.mlp_layer_types, count, lambda i: i >= 3)
    by_kind = {SLIDING: {}, FULL: None} if c.rope_parameters is None else c.rope_parameters
    kinds = {SLIDING if of else FULL for of in within}
    if not isinstance(by_kind, dict) or not kinds <= {*by_kind}:
        raise FormatError(
            f"config.json: rope_parameters is {brief(by_kind)}; it must have {' and '.join(kinds)}"
        )
    positions = {**vars(c), "rope_parameters": by_kind}
    plain = llama.describe(replace(c, rope_parameters=None))

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        turned = by_kind[kind] is not None
        return replace(
            a,
            rotary=rotary_of_kind(positions, a.head_dim, kind, 10000.0) if turned else None,
            norm=plain.norm,
            window=c.sliding_window if within[layer] else None,
            power=None if turned else POWER,
            gate_over="each",
            gate_bias=True,
        )

    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        c.norm_topk_prob,
        routing=RoutingSpec(
            "sigmoid",
            correction="e_score_correction_bias",
            groups=c.n_group or 1,
            kept=c.topk_group or 1,
            best=2,
            scale=c.routed_scaling_factor,
        ),
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    return replace(
        with_mlps(each_attention(plain, changed), lambda i: experts if sparse[i] else dense),
        names=NAMES,
        depth_scaled=True,
        logits_softcap=c.final_logit_softcapping,
    )


FAMILY = Family(
    model_types=("beam",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
