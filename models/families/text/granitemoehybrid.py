"""Granite 4 (Granite Team, 2025): Granite with Mamba2 blocks, and experts beside an MLP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.ops import cat
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import granite
from rushlight.models.gguf.architecture import Architecture, Transform
from rushlight.models.gguf.scans import CHANNELS, DECAY_ROWS, ROWS
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.state_space import mamba2_of
from rushlight.models.layers.building import (
    FULL,
    LINEAR,
    decoder_builder,
    each_attention,
    kinds_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.parts import Split, gate_and_up

ARCHITECTURES = ("GraniteMoeHybridForCausalLM",)
NAMES = DecoderNames(mlp="")  # experts and the MLP are parts of the layer itself
ROUTED, ALWAYS = "block_sparse_moe", "shared_mlp"
INSIDE = MLPNames(
    router=f"{ROUTED}.router.layer",
    experts=ROUTED,
    down="output_linear",
    shared=ALWAYS,
)
SHARED = MLPNames(down="output_linear")
DENSE = MLPNames(gate=f"{ALWAYS}.gate_proj", up=f"{ALWAYS}.up_proj", down=f"{ALWAYS}.output_linear")


@dataclass
class Config(granite.Config):
    """The keys of config.json that the model depends on."""

    num_local_experts: int | None = 8
    num_experts_per_tok: int | None = 2
    shared_intermediate_size: int = 1024
    position_embedding_type: Any = None
    layer_types: Any = None
    mamba_n_heads: int = 128
    mamba_d_head: Any = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: Any = None
    model_type: str = "granitemoehybrid"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("position_embedding_type", c.position_embedding_type, (None, "nope", "rope"))
    linear = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: True, LINEAR)
    scan = mamba2_of(c) if any(linear) else None
    always: MLPSpec | ExpertsSpec
    always = MLPSpec(c.shared_intermediate_size, c.hidden_act, names=DENSE)
    if c.num_local_experts:
        always = ExpertsSpec(
            c.num_local_experts,
            c.num_experts_per_tok or 0,
            c.intermediate_size,
            c.hidden_act,
            shared=replace(always, names=SHARED),
            names=INSIDE,
        )

    def placed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return a if c.position_embedding_type == "rope" else replace(a, rotary=None)

    plain = with_mlps(each_attention(granite.describe(c), placed), lambda i: always)
    layers = tuple(
        replace(layer, attention=scan, name="mamba") if scan is not None and linear[i] else layer
        for i, layer in enumerate(plain.layers)
    )
    return replace(plain, layers=layers, names=NAMES)


def gguf() -> Architecture:
    """A layer without heads of keys is a Mamba2 block."""

    def adjust(c: dict[str, Any]) -> None:
        heads = c.get("layer_types")
        heads = heads.tolist() if isinstance(heads, np.ndarray) else heads
        if not isinstance(heads, list) or any(type(n) is not int or n < 0 for n in heads):
            raise FormatError(
                f"granitehybrid.attention.head_count_kv is {brief(heads)}; one for each layer"
            )
        rotated = c.get("position_embedding_type", True)
        c.update(
            layer_types=[FULL if n else LINEAR for n in heads],
            num_key_value_heads=max([1, *heads]),
            position_embedding_type="rope" if rotated else None,
            mamba_conv_bias="mamba.conv1d.bias" in c["inside"],
            mamba_expand=c.get("mamba_inner", 0) / max(c["hidden_size"], 1),
            num_local_experts=c.get("num_local_experts", 0),
            shared_intermediate_size=c.get("shared_intermediate_size") or c["intermediate_size"],
        )

    def tell(model: Any) -> dict[str, Any]:
        specs = [layer.attention for layer in model.spec.layers]
        scans = [s for s in specs if not isinstance(s, AttentionSpec)]
        if not scans or not model.config.num_local_experts:
            raise LoadError(
                "granitemoehybrid without experts or without Mamba2 blocks cannot be written as "
                "GGUF; with both it can",
                hint="use the folder itself",
            )
        return {
            "attention.head_count_kv": np.array(
                [getattr(s, "kv_heads", 0) for s in specs], np.int32
            ),
            "ssm.inner_size": scans[0].heads * scans[0].head,
            "rope.scaling.finetuned": model.config.position_embedding_type == "rope",
            "vocab_size": model.vocab_size,
        }

    inside = "model.layers.{}.mamba."
    layer = "model.layers.{}."
    scan = {
        "ssm_in": "in_proj",
        "ssm_conv1d": "conv1d",
        "ssm_a": "A_log",
        "ssm_d": "D",
        "ssm_dt.bias": "dt_bias",
        "ssm_norm": "norm",
        "ssm_out": "out_proj",
    }
    fed = {
        # Files without experts have the names of a plain MLP.
        "ffn_gate": DENSE.gate,
        "ffn_up": DENSE.up,
        "ffn_down": DENSE.down,
        "ffn_gate_inp": INSIDE.router,
        "ffn_gate_exps": f"{ROUTED}.{INSIDE.gate}",
        "ffn_up_exps": f"{ROUTED}.{INSIDE.up}",
        "ffn_down_exps": f"{ROUTED}.{INSIDE.down}",
        "ffn_gate_shexp": f"{ALWAYS}.{INSIDE.gate}",
        "ffn_up_shexp": f"{ALWAYS}.{INSIDE.up}",
        "ffn_down_shexp": f"{ALWAYS}.{INSIDE.down}",
    }
    grouped = Transform(lambda t, c: t.reshape(-1), lambda t, c: t.reshape(c["mamba_n_groups"], -1))
    return Architecture(
        "granitemoehybrid",
        "GraniteMoeHybridForCausalLM",
        keys={
            **granite.GGUF.keys,
            "num_local_experts": "expert_count",
            "num_experts_per_tok": "expert_used_count",
            "shared_intermediate_size": "expert_shared_feed_forward_length",
            "num_key_value_heads": "",
            "layer_types": "attention.head_count_kv",
            "position_embedding_type": "rope.scaling.finetuned",
            "mamba_d_conv": "ssm.conv_kernel",
            "mamba_d_state": "ssm.state_size",
            "mamba_n_heads": "ssm.time_step_rank",
            "mamba_n_groups": "ssm.group_count",
            "mamba_inner": "ssm.inner_size",
        },
        adjust=adjust,
        decoder=NAMES,
        metadata=tell,
        transforms={
            **granite.GGUF.transforms,
            "conv1d.weight": CHANNELS,
            "A_log": DECAY_ROWS,
            "D": ROWS,
            "mamba.norm": grouped,
        },
        parts={f"blk.{{}}.{theirs}": inside + ours for theirs, ours in scan.items()}
        | {f"blk.{{}}.{theirs}": layer + ours for theirs, ours in fed.items()},
    )


FAMILY = Family(
    model_types=("granitemoehybrid",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={
        **gate_and_up(f"{ROUTED}.input_linear.weight", f"{ROUTED}."),
        f"{ALWAYS}.input_linear.weight": Split(
            {
                f"{ALWAYS}.gate_proj.weight": lambda t: t[: t.shape[0] // 2],
                f"{ALWAYS}.up_proj.weight": lambda t: t[t.shape[0] // 2 :],
            },
            lambda gate, up: cat([gate, up]),
        ),
    },
    gguf_types=("granitehybrid",),
    gguf=gguf(),
)
