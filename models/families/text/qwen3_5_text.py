"""Qwen3.5's language model (Qwen Team, 2026): Qwen3-Next's layers with plain MLPs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import delta
from rushlight.models.gguf.architecture import Architecture, Change, Transform, floats
from rushlight.models.gguf.scans import CHANNELS, DECAY
from rushlight.models.layers.blocks.gated_delta import delta_of, with_delta
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Qwen3_5ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    own = ("tiled",)

    max_position_embeddings: int = 32768
    head_dim: int | None = 256
    partial_rotary_factor: float | None = 0.25
    full_attention_interval: int = 4
    layer_types: Any = None
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    tiled: bool = False  # the order of value heads in GGUF files
    model_type: str = "qwen3_5_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    layers = delta_of(c, split=True, apart=True, tiled=c.tiled)
    return with_delta(c, llama.describe(c), layers)


def unused(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a tensor is of what sees, or predicts several tokens at once."""
    return name.startswith(("mtp.", "model.visual."))


def tiled(kept: int = 0, columns: bool = False, redo: Change = lambda t, c: t) -> Transform:
    """The converter's order of value heads: the first of each key head, then their second ones.

    kept: how many times as many rows as there are keys stay first. columns: the order of the
    columns, not of the rows. redo: what else is made. The model reads the heads as a file has them.
    """

    def moved(t: Tensor, c: Mapping[str, Any]) -> Tensor:
        keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
        t = redo(t, c)
        if c.get("tiled") or keys == values:
            return t
        t = floats(t).t() if columns else t
        first, rest = kept * keys * c["linear_key_head_dim"], t.shape[1:]
        heads = t[first:].reshape(keys, values // keys, -1, *rest).transpose(0, 1)
        rows = cat([t[:first], heads.reshape(-1, *rest)])
        return rows.t().contiguous() if columns else rows

    return Transform(lambda t, c: t, moved)


def gguf(model_type: str, architecture: str, keys: Mapping[str, str]) -> Architecture:
    """Gated delta layers among those of attention; keys: further ones, of experts."""

    def adjust(c: dict[str, Any]) -> None:
        delta.adjust_layers(c)
        c["tiled"] = True

    def tell(model: Any) -> dict[str, Any]:
        pairs = next(iter(model.rotary.ropes)).dim // 2 if model.rotary.ropes else 0
        # Pairs of frequencies take turns: time, height, width. Texts have the same place in each.
        sections = [(pairs + 2 - i) // 3 for i in range(3)]
        told = {"rope.dimension_sections": np.array([*sections, 0], np.int32)}
        return delta.tell_layers(model) | told

    names = {
        "attn_qkv": "in_proj_qkv",
        "attn_gate": "in_proj_z",
        "ssm_beta": "in_proj_b",
        "ssm_alpha": "in_proj_a",
        "ssm_conv1d": "conv1d",
        "ssm_a": "A_log",
        "ssm_dt.bias": "dt_bias",
        "ssm_norm": "norm",
        "ssm_out": "out_proj",
    }
    decay, channels = tiled(redo=DECAY.redo), tiled(2, redo=CHANNELS.redo)
    return Architecture(
        model_type,
        architecture,
        keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            **delta.KEYS,
            **keys,
        },
        adjust=adjust,
        metadata=tell,
        transforms={
            "in_proj_qkv": tiled(2),
            **dict.fromkeys(("in_proj_z", "in_proj_b", "in_proj_a", "dt_bias"), tiled()),
            "conv1d.weight": replace(channels, undo=CHANNELS.undo),
            "A_log": replace(decay, undo=DECAY.undo),
            "linear_attn.out_proj": tiled(columns=True),
            **delta.OFFSETS,
        },
        parts={f"blk.{{}}.{theirs}": delta.INSIDE + ours for theirs, ours in names.items()}
        | {"blk.{}.post_attention_norm": f"model.layers.{{}}.{delta.AFTER}"},
    )


FAMILY = Family(
    model_types=("qwen3_5_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=unused,
    gguf_types=("qwen35",),
    gguf=gguf("qwen3_5_text", "Qwen3_5ForCausalLM", {}),
)
