"""Mellum 2 (JetBrains, 2026): Qwen3's experts with windows, and positions of each kind of layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("MellumForCausalLM",)
THETAS = {FULL: 500000.0, SLIDING: 10000.0}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    # Layers that predict several tokens at once take no part; each kind has its own positions.
    neutral = dict.fromkeys(
        (
            "num_mtp_layers",
            "num_nextn_predict_layers",
            "mtp_layer_types",
            "mtp_mlp_layer_types",
        ),
        (),
    )

    num_key_value_heads: int | None = 4
    head_dim: int | None = 128
    max_position_embeddings: int = 131072
    sliding_window: int | None = 1024
    layer_types: Any = None
    mlp_layer_types: Any = None
    moe_intermediate_size: int = 896
    num_experts: int = 64
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = True
    model_type: str = "mellum"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count, kinds = c.num_hidden_layers, c.mlp_layer_types
    within = kinds_of(c.layer_types, count, lambda _: False)
    kinds = ["sparse"] * count if kinds is None else kinds
    if not isinstance(kinds, list) or len(kinds) != count or not {*kinds} <= {"dense", "sparse"}:
        raise FormatError(
            f"config.json: mlp_layer_types is {brief(kinds)}; it must have {count} entries, each "
            "dense or sparse"
        )
    plain = llama.describe(replace(c, rope_parameters=None, rope_scaling=None))
    experts = ExpertsSpec(
        c.num_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        normalized=c.norm_topk_prob,
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        return replace(
            a,
            norm=plain.norm,
            rotary=rotary_of_kind(vars(c), a.head_dim, kind, THETAS[kind], scaled=False),
            window=c.sliding_window if within[layer] else None,
        )

    return with_mlps(
        each_attention(plain, changed), lambda i: experts if kinds[i] == "sparse" else dense
    )


def adjust(c: dict[str, Any]) -> None:
    """A file's windows; llama.cpp has one base, and scales the positions of full layers alone."""
    windows.adjust_windows(c)
    base = c.pop("rope_theta", THETAS[FULL])
    scaling = c.pop("rope_scaling", None) or {"rope_type": "default"}
    c["rope_parameters"] = {
        FULL: {**scaling, "rope_theta": base},
        SLIDING: {"rope_type": "default", "rope_theta": base},
    }


GGUF = Architecture(
    "mellum",
    "MellumForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        **windows.KEYS,
    },
    fixed={"norm_topk_prob": True},
    adjust=adjust,
    metadata=windows.tell_windows,
)

FAMILY = Family(
    model_types=("mellum",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("mellum",),
    gguf=GGUF,
)
