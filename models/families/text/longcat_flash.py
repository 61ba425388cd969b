"""LongCat Flash (Meituan, 2025): latent attention, experts beside two dense parts, idle experts."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.blocks.shortcut import ShortcutSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import Decoder, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import magnified, rotary_of
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import renamed

ARCHITECTURES = ("LongcatFlashForCausalLM",)
FED = MLPNames(router="router.classifier")
CORRECTION = "e_score_correction_bias"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("spare_experts",)

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_attention_heads: int
    num_hidden_layers: int | None = None  # twice num_layers, and told after it
    ffn_hidden_size: int = 12288
    expert_ffn_hidden_size: int = 2048
    q_lora_rank: int = 1536
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    qk_head_dim: int | None = None
    head_dim: int = 64
    num_key_value_heads: int | None = None
    v_head_dim: int = 128
    moe_topk: int = 12
    n_routed_experts: int = 512
    zero_expert_num: int | None = 256
    spare_experts: bool = False  # gate and up have matrices for idle experts too
    routed_scaling_factor: float = 6.0
    hidden_act: str = "silu"
    attention_bias: bool = False
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "longcat_flash"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if c.num_hidden_layers is not None:
        c.num_layers = c.num_hidden_layers // 2
    size = c.qk_nope_head_dim + c.qk_rope_head_dim
    choose("qk_head_dim", c.qk_head_dim, (None, size))
    choose("num_key_value_heads", c.num_key_value_heads, (None, c.num_attention_heads))
    choose("head_dim", c.head_dim, (c.qk_rope_head_dim,))
    rotary = replace(rotary_of(vars(c), c.qk_rope_head_dim), interleaved=True)
    norm, idle = NormSpec("rms", c.rms_norm_eps), c.zero_expert_num or 0
    attention = LatentSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.kv_lora_rank,
        c.q_lora_rank,
        c.qk_nope_head_dim,
        c.v_head_dim,
        rotary,
        magnified(vars(c)) / math.sqrt(max(size, 1)),
        c.attention_bias,
        magnify=(
            math.sqrt(c.hidden_size / max(c.q_lora_rank, 1)),
            math.sqrt(c.hidden_size / max(c.kv_lora_rank, 1)),
        ),
    )
    experts = ExpertsSpec(
        c.n_routed_experts,
        c.moe_topk,
        c.expert_ffn_hidden_size,
        c.hidden_act,
        normalized=False,
        routing=RoutingSpec(correction=CORRECTION, scale=c.routed_scaling_factor),
        idle=idle,
        spare=idle if c.spare_experts else 0,
        names=FED,
    )
    dense = MLPSpec(c.ffn_hidden_size, c.hidden_act)
    block = ShortcutSpec(c.hidden_size, c.num_layers, attention, dense, experts, norm)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(block, None, name="", rotary=rotary),) * c.num_layers,
        norm=norm,
        tied=bool(c.tie_word_embeddings),
    )


_build = decoder_builder(Config, describe, ARCHITECTURES, both_ways=False)


def build(config: dict[str, Any], names: Collection[str]) -> Decoder:
    """The model of a checkpoint with these tensor names, on the meta device.

    What transformers saves has more matrices of gate and up than experts; published files do not.
    """
    count = config.get("n_routed_experts", 512)
    spare = any(f".mlp.experts.{count}.gate_proj." in name for name in names)
    return _build({**config, "spare_experts": config.get("spare_experts", spare)}, names)


FAMILY = Family(
    model_types=("longcat_flash",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    refused=("router_bias",),
    parts=renamed(f"mlp.router.{CORRECTION}", f"mlp.router.classifier.{CORRECTION}"),
)
