"""MiniMax-01 (MiniMax, 2025): lightning attention, full attention in some layers, and experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import mixtral
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.lightning import LightningSpec, NormedResidualSpec
from rushlight.models.layers.building import LINEAR, decoder_builder, kinds_of
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec

ARCHITECTURES = ("MiniMaxForCausalLM",)


@dataclass
class Config(mixtral.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"block_size": ()}

    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 131072
    layer_types: Any = None
    full_attn_alpha_factor: float = 1
    full_attn_beta_factor: float = 1
    linear_attn_alpha_factor: float = 1
    linear_attn_beta_factor: float = 1
    mlp_alpha_factor: float = 1
    mlp_beta_factor: float = 1
    model_type: str = "minimax"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count = c.num_hidden_layers
    linear = kinds_of(c.layer_types, count, lambda i: i % 2 == 1, LINEAR)
    head = c.head_dim or c.hidden_size // max(c.num_attention_heads, 1)
    lightning = LightningSpec(c.hidden_size, c.num_attention_heads, head, count, c.hidden_act)

    def changed(layer: LayerSpec, is_linear: bool) -> LayerSpec:
        assert isinstance(layer.attention, AttentionSpec) and isinstance(layer.mlp, ExpertsSpec)
        full = (c.full_attn_alpha_factor, c.full_attn_beta_factor)
        own = (c.linear_attn_alpha_factor, c.linear_attn_beta_factor)
        block = NormedResidualSpec(
            c.hidden_size,
            lightning if is_linear else layer.attention,
            layer.mlp,
            own if is_linear else full,
            (c.mlp_alpha_factor, c.mlp_beta_factor),
            mixtral.NAMES.mlp,
            c.rms_norm_eps,
        )
        return LayerSpec(block, None, name="", rotary=layer.attention.rotary)

    plain = mixtral.describe(replace(c, layer_types=None))
    return replace(plain, layers=tuple(map(changed, plain.layers, linear)))


FAMILY = Family(
    model_types=("minimax",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
