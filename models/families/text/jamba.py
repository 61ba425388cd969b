"""Jamba (AI21, 2024): Mamba blocks, attention without positions in some layers, and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, listed
from rushlight.models.gguf.scans import CHANNELS, DECAY
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.state_space import MambaSpec, rank_of
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec

ARCHITECTURES = ("JambaForCausalLM",)
NAMES = DecoderNames(before_mlp="pre_ff_layernorm", mlp="feed_forward", norm="final_layernorm")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"use_mamba_kernels": ()}

    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 262144
    num_experts_per_tok: int = 2
    num_experts: int = 16
    expert_layer_period: int = 2
    expert_layer_offset: int = 1
    attn_layer_period: int = 8
    attn_layer_offset: int = 4
    mamba_d_state: int = 16
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_dt_rank: Any = "auto"
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    model_type: str = "jamba"


def chosen(c: Config, kind: str) -> list[bool]:
    """Whether each layer is of the `kind` that comes once in so many layers."""
    period, offset = (getattr(c, f"{kind}_layer_{name}") for name in ("period", "offset"))
    if offset >= period:
        raise FormatError(
            f"config.json: {kind}_layer_offset is {offset}; it must be less than "
            f"{kind}_layer_period, {period}"
        )
    return [i % period == offset for i in range(c.num_hidden_layers)]


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    routed, full = chosen(c, "expert"), chosen(c, "attn")
    scan = MambaSpec(
        c.hidden_size,
        int(c.mamba_expand * c.hidden_size),
        c.mamba_d_state,
        rank_of(c.mamba_dt_rank, c.hidden_size),
        c.mamba_d_conv,
        c.mamba_proj_bias,
        c.mamba_conv_bias,
        c.hidden_act,
        c.rms_norm_eps,
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)

    def fed(layer: int) -> MLPSpec | ExpertsSpec:
        if not routed[layer] or c.num_experts < 2:
            return dense
        return ExpertsSpec(
            c.num_experts,
            c.num_experts_per_tok,
            c.intermediate_size,
            c.hidden_act,
            normalized=False,
            names=MLPNames(router="router"),
        )

    def unplaced(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(a, rotary=None)

    plain = with_mlps(each_attention(llama.describe(c), unplaced), fed)
    layers = tuple(
        layer if full[i] else replace(layer, attention=scan, name="mamba")
        for i, layer in enumerate(plain.layers)
    )
    return replace(plain, layers=layers, names=NAMES)


def adjust(c: dict[str, Any]) -> None:
    """A file has the heads of keys of each layer, 0 of those without attention.

    Which layers have experts and attention is told by a period and an offset.
    """
    count = c["num_hidden_layers"]
    heads = listed("attention.head_count_kv", c.get("each_kv"), int, [])
    c["num_key_value_heads"] = max(heads, default=0)
    routed = [f"model.layers.{i}.feed_forward.router.weight" in c["names"] for i in range(count)]
    for kind, has in (("attn", [n > 0 for n in heads]), ("expert", routed)):
        places = [i for i, found in enumerate(has) if found]
        first = places[0] if places else count
        period = places[1] - first if len(places) > 1 else count + 1
        if places != list(range(first, len(has), max(period, 1))):
            raise FormatError(f"layers {places} have {kind}; supported: every so many")
        c[f"{kind}_layer_offset"], c[f"{kind}_layer_period"] = first, max(period, first + 1)
    c["mamba_expand"] = c.get("inner", 0) / max(c["hidden_size"], 1)
    c["mamba_proj_bias"] = any(name.endswith("mamba.in_proj.bias") for name in c["names"])
    c["mamba_conv_bias"] = any(name.endswith("mamba.conv1d.bias") for name in c["names"])


def tell(model: Any) -> dict[str, Any]:
    """The heads of keys of each layer, and the sizes of the state spaces."""
    full = [isinstance(layer.attention, AttentionSpec) for layer in model.spec.layers]
    scan = next(e.attention for e in model.spec.layers if isinstance(e.attention, MambaSpec))
    heads = [model.config.num_key_value_heads * here for here in full]
    return {
        "attention.head_count_kv": np.array(heads, np.int32),
        "ssm.inner_size": scan.inner,
        "ssm.time_step_rank": scan.rank,
    }


INSIDE = {
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv1d",
    "ssm_x": "x_proj",
    "ssm_dt": "dt_proj",
    "ssm_dt_norm": "dt_layernorm",
    "ssm_b_norm": "b_layernorm",
    "ssm_c_norm": "c_layernorm",
    "ssm_out": "out_proj",
    "ssm_a": "A_log",
    "ssm_d": "D",
}
GGUF = Architecture(
    "jamba",
    "JambaForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_key_value_heads": "",
        "each_kv": "attention.head_count_kv",
        "rope_theta": "",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "mamba_d_conv": "ssm.conv_kernel",
        "mamba_d_state": "ssm.state_size",
        "mamba_dt_rank": "ssm.time_step_rank",
        "inner": "ssm.inner_size",
    },
    transforms={"conv1d.weight": CHANNELS, "A_log": DECAY},
    adjust=adjust,
    metadata=tell,
    decoder=NAMES,
    mlp=MLPNames(router="router"),
    parts={f"blk.{{}}.{theirs}": f"model.layers.{{}}.mamba.{o}" for theirs, o in INSIDE.items()},
)

FAMILY = Family(
    model_types=("jamba",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("jamba",),
    gguf=GGUF,
)
