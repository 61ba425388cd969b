"""Kimi Linear (Moonshot AI, 2025): delta layers to one of latent attention without positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.blocks.split_delta import SplitDeltaSpec
from rushlight.models.layers.building import LINEAR, decoder_builder, kinds_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.positions.rotary import RotarySpec
from rushlight.models.layers.routing import RoutingSpec

ARCHITECTURES = ("KimiLinearForCausalLM",)
NAMES = DecoderNames(mlp="block_sparse_moe")
INSIDE = MLPNames(gate="w1", up="w3", down="w2", shared="shared_experts")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 1048576
    rms_norm_eps: float = 1e-5
    moe_intermediate_size: int = 1024
    num_local_experts: int = 256
    num_experts_per_tok: int | None = 8
    n_shared_experts: int = 1
    n_group: int = 1
    topk_group: int | None = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.446
    kv_lora_rank: int = 512
    q_lora_rank: int | None = None
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int | None = 128
    layer_types: Any = None
    mlp_layer_types: Any = None
    first_k_dense_replace: int = 1
    linear_head_dim: int = 128
    linear_num_heads: int = 32
    linear_conv_kernel_dim: int = 4
    linear_attn_config: Any = None
    model_type: str = "kimi_linear"


def linear_layers(c: Config, told: Mapping[str, Any]) -> list[bool]:
    """Whether each layer is a delta layer; numbers in linear_attn_config begin with 1."""
    count = c.num_hidden_layers
    if c.layer_types is None and {"full_attn_layers", "kda_layers"} <= told.keys():
        full, linear = told["full_attn_layers"], told["kda_layers"]
        both = [*full, *linear] if isinstance(full, list) and isinstance(linear, list) else []
        if sorted(map(str, both)) != sorted(map(str, range(1, count + 1))):
            raise FormatError(
                f"config.json: linear_attn_config has full_attn_layers {brief(full)} and "
                f"kda_layers {brief(linear)}; each of {count} layers must be in one of them"
            )
        return [i + 1 in linear for i in range(count)]
    return kinds_of(c.layer_types, count, lambda i: i == 0 or i % 4 != 0, LINEAR)


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    told = c.linear_attn_config or {}
    if not isinstance(told, dict):
        raise FormatError(f"config.json: linear_attn_config is {brief(told)}; it must be an object")
    heads, head, kernel = (
        told.get(key, default)
        for key, default in (
            ("num_heads", c.linear_num_heads),
            ("head_dim", c.linear_head_dim),
            ("short_conv_kernel_size", c.linear_conv_kernel_dim),
        )
    )
    if any(type(size) is not int for size in (heads, head, kernel)):
        raise FormatError(
            f"config.json: linear_attn_config has num_heads {brief(heads)}, head_dim {brief(head)} "
            f"and short_conv_kernel_size {brief(kernel)}; they must be whole numbers"
        )
    delta = SplitDeltaSpec(
        c.hidden_size, heads, heads, head, head, kernel, c.hidden_act, c.rms_norm_eps, narrow=True
    )
    latent = LatentSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.kv_lora_rank,
        c.q_lora_rank,
        c.qk_nope_head_dim,
        c.v_head_dim or 0,
        RotarySpec(c.qk_rope_head_dim),
        max(c.qk_nope_head_dim + c.qk_rope_head_dim, 1) ** -0.5,
        c.attention_bias,
        rotated=False,
    )
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok or 0,
        c.moe_intermediate_size,
        c.hidden_act,
        c.norm_topk_prob,
        MLPSpec(c.moe_intermediate_size * c.n_shared_experts, c.hidden_act),
        names=INSIDE,
        routing=RoutingSpec(
            "sigmoid",
            correction="e_score_correction_bias",
            groups=c.n_group,
            kept=c.topk_group or 1,
            best=2,
            scale=c.routed_scaling_factor,
        ),
    )
    fed = c.mlp_layer_types
    if fed is None:
        first = c.first_k_dense_replace
        fed = ["dense" if i < first else "sparse" for i in range(c.num_hidden_layers)]
    known = isinstance(fed, list) and all(kind in ("dense", "sparse") for kind in fed)
    if not known or len(fed) != c.num_hidden_layers:
        raise FormatError(
            f"config.json: mlp_layer_types is {brief(fed)}; it must have {c.num_hidden_layers} "
            "entries, each dense or sparse"
        )
    c.head_dim = None
    layers = tuple(
        LayerSpec(delta if linear else latent, dense if kind == "dense" else experts)
        for linear, kind in zip(linear_layers(c, told), fed, strict=True)
    )
    # The reference never ties the head.
    return replace(llama.describe(c), layers=layers, names=NAMES, tied=False)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with one name of feed-forward parts; published files have mlp for dense ones."""
    return {name.replace(".mlp.", f".{NAMES.mlp}."): t for name, t in tensors.items()}


FAMILY = Family(
    model_types=("kimi_linear",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    rename_tensors=rename_tensors,
)
