"""Qwen3-Next (Qwen Team, 2025): three gated delta layers to one of gated attention, and experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2_moe
from rushlight.models.gguf import delta
from rushlight.models.gguf.architecture import Architecture, Regroup
from rushlight.models.gguf.scans import CHANNELS, DECAY
from rushlight.models.layers.blocks.gated_delta import delta_of, with_delta
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

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


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = qwen2_moe.describe(replace(c, layer_types=None))
    return with_delta(c, plain, delta_of(c, split=c.split))


def gguf() -> Architecture:
    """Gated delta layers among those of attention."""

    def adjust(c: dict[str, Any]) -> None:
        delta.adjust_layers(c)
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
        keys={**qwen2_moe.GGUF.keys, **delta.KEYS},
        fixed={"norm_topk_prob": True},
        adjust=adjust,
        metadata=delta.tell_layers,
        transforms={"conv1d.weight": CHANNELS, "A_log": DECAY, **delta.OFFSETS},
        parts={f"blk.{{}}.{theirs}": delta.INSIDE + ours for theirs, ours in names.items()}
        | {"blk.{}.post_attention_norm": f"model.layers.{{}}.{delta.AFTER}"},
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
