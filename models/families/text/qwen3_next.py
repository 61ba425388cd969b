"""Qwen3-Next (Qwen Team, 2025): three gated delta layers to one of gated attention, and experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2_moe
from rushlight.models.gguf.architecture import OFFSET, Architecture, Regroup, listed
from rushlight.models.gguf.scans import CHANNELS, DECAY
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.gated_delta import GatedDeltaSpec
from rushlight.models.layers.building import (
    FULL,
    LINEAR,
    decoder_builder,
    each_attention,
    kinds_of,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Qwen3NextForCausalLM",)


@dataclass
class Config(qwen2_moe.Config):
    """The keys of config.json that the model depends on."""

    own = ("split",)

    head_dim: int | None = 256
    partial_rotary_factor: float | None = 0.25
    full_attention_interval: int = 4
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts: int = 512
    num_experts_per_tok: int = 10
    norm_topk_prob: bool = True
    split: bool = False  # matrices of q, k and v, and of gates: in GGUF files
    model_type: str = "qwen3_next"


def delta_of(c: Any, **changes: bool) -> GatedDeltaSpec:
    """The gated delta layers that a configuration asks for; changes: of their description."""
    return GatedDeltaSpec(
        c.hidden_size,
        c.linear_num_key_heads,
        c.linear_num_value_heads,
        c.linear_key_head_dim,
        c.linear_value_head_dim,
        c.linear_conv_kernel_dim,
        c.hidden_act,
        c.rms_norm_eps,
        **changes,
    )


def with_delta(c: Any, plain: DecoderSpec, delta: GatedDeltaSpec) -> DecoderSpec:
    """`plain` with gated attention, and gated delta layers where the configuration has them."""
    every = max(c.full_attention_interval, 1)
    linear = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: bool((i + 1) % every), LINEAR)
    norm = NormSpec("rms", c.rms_norm_eps, offset=1.0)

    def gated(layer: int, a: AttentionSpec) -> AttentionSpec:
        bias = c.attention_bias
        return replace(a, bias=bias, out_bias=bias, norm=norm, gated=True)

    layers = tuple(
        replace(layer, attention=delta, name="linear_attn") if linear[i] else layer
        for i, layer in enumerate(each_attention(plain, gated).layers)
    )
    return replace(plain, layers=layers, norm=norm)


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = qwen2_moe.describe(replace(c, layer_types=None))
    return with_delta(c, plain, delta_of(c, split=c.split))


def adjust_layers(c: dict[str, Any]) -> None:
    """A file says which layers are linear, or how many are not."""
    count, every = c["num_hidden_layers"], max(c.get("full_attention_interval", 4), 1)
    linear = listed(
        "attention.recurrent_layers",
        c.get("layer_types"),
        bool,
        [(i + 1) % every != 0 for i in range(count)],
    )
    c["layer_types"] = [LINEAR if is_linear else FULL for is_linear in linear]
    c["linear_value_head_dim"] = c["linear_key_head_dim"]


def tell_layers(model: Any) -> dict[str, Any]:
    """What a file says of the linear layers."""
    linear = [isinstance(layer.attention, GatedDeltaSpec) for layer in model.spec.layers]
    c = model.config
    return {
        "attention.recurrent_layers": np.array(linear),
        "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim,
    }


INSIDE = "model.layers.{}.linear_attn."
KEYS = {
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "linear_key_head_dim": "ssm.state_size",
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "layer_types": "attention.recurrent_layers",
    "full_attention_interval": "full_attention_interval",
}
AFTER = "post_attention_layernorm"
OFFSETS = {
    "model.norm": OFFSET,
    **dict.fromkeys(("input_layernorm", AFTER, "q_norm", "k_norm"), OFFSET),
}


def gguf() -> Architecture:
    """Gated delta layers among those of attention."""

    def adjust(c: dict[str, Any]) -> None:
        adjust_layers(c)
        # Older files have one matrix, as the checkpoint.
        c["split"] = not any("in_proj_qkvz" in name for name in c["inside"])

    def apart(c: Mapping[str, Any], t: Tensor) -> Sequence[Tensor]:
        heads, keys = c["linear_num_key_heads"], c["linear_key_head_dim"]
        values = c["linear_num_value_heads"] // heads * c["linear_value_head_dim"]
        parts = t.reshape(heads, -1, t.shape[-1]).split([keys, keys, values, values], 1)
        q, k, v, z = (rows.reshape(-1, t.shape[-1]) for rows in parts)
        return [cat([q, k, v]), z]

    names = {
        "ssm_in": "in_proj_qkvz",
        "attn_qkv": "in_proj_qkv",
        "attn_gate": "in_proj_z",
        "ssm_ba": "in_proj_ba",
        "ssm_conv1d": "conv1d",
        "ssm_a": "A_log",
        "ssm_dt.bias": "dt_bias",
        "ssm_norm": "norm",
        "ssm_out": "out_proj",
    }
    return Architecture(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        keys={**qwen2_moe.GGUF.keys, **KEYS},
        fixed={"norm_topk_prob": True},
        adjust=adjust,
        metadata=tell_layers,
        transforms={"conv1d.weight": CHANNELS, "A_log": DECAY, **OFFSETS},
        parts={f"blk.{{}}.{theirs}": INSIDE + ours for theirs, ours in names.items()}
        | {"blk.{}.post_attention_norm": f"model.layers.{{}}.{AFTER}"},
        regroups=(
            Regroup(
                ("in_proj_qkvz.weight",),
                ("in_proj_qkv.weight", "in_proj_z.weight"),
                None,
                apart,
            ),
        ),
    )


FAMILY = Family(
    model_types=("qwen3_next",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("qwen3next",),
    gguf=gguf(),
)
