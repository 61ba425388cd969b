"""Spark X2.5 (iFlytek, 2026): LLaMA with windows, a gate on each head, and a GELU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf import windows
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("Spark2_5ForCausalLM",)
INSIDE = AttentionNames(qkv="q_k_v_proj", gate="g_proj")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    hidden_act: str = "gelu"
    partial_rotary_factor: float | None = None
    sliding_window: int | None = None
    layer_types: Any = None
    gate_attn_act_mode: str = "sigmoid"
    headwise_attn_output_gate: bool = True
    model_type: str = "spark2_5"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("gate_attn_act_mode", c.gate_attn_act_mode, ("sigmoid",))
    choose("headwise_attn_output_gate", c.headwise_attn_output_gate, (True,))
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda _: False)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        return replace(
            a,
            fused="stacked",
            gate_over="head",
            rotary=rotary_of_kind(vars(c), a.head_dim, kind, c.rope_theta),
            window=c.sliding_window if within[layer] else None,
            names=INSIDE,
        )

    plain = llama.describe(replace(c, rope_parameters=None, rope_scaling=None))
    return each_attention(plain, changed)


def tell(model: Any) -> dict[str, Any]:
    """Windows and their positions."""
    within = [e.attention.rotary for e in model.spec.layers if e.attention.window is not None]
    told = windows.tell_windows(model) | windows.tell_bases(model)
    return told | ({"rope.dimension_count_swa": within[0].dim} if within else {})


GGUF = Architecture(
    "spark2_5",
    ARCHITECTURES[0],
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "swa_theta": "rope.freq_base_swa",
        "rotated": "rope.dimension_count",
        "swa_rotated": "rope.dimension_count_swa",
        **windows.KEYS,
    },
    adjust=windows.adjust_kinds,
    metadata=tell,
    attention=INSIDE,
    parts={"blk.{}.attn_gate": "model.layers.{}.self_attn.g_proj"},
)

FAMILY = Family(
    model_types=("spark2_5",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("spark2_5",),
    gguf=GGUF,
)
