"""Doge (Shi et al., 2025): keys gain a number made of their values; residuals have weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.blocks.dynamic_mask import WeightedLayerSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("DogeForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    # Of experts, which are refused.
    neutral = {"num_experts": (), "num_experts_per_tok": (), "norm_topk_prob": ()}

    sliding_window: int | None = None
    keep_window_size: int = 2048
    is_moe: bool = False
    model_type: str = "doge"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("is_moe", c.is_moe, (False,))
    if c.keep_window_size < c.max_position_embeddings:
        raise FormatError(
            f"config.json: keep_window_size {c.keep_window_size} is not supported, as it is less "
            f"than max_position_embeddings {c.max_position_embeddings}; supported: all keys are "
            "kept"
        )
    plain = llama.describe(c)
    head = c.head_dim or c.hidden_size // max(c.num_attention_heads, 1)
    rotary = rotary_of(vars(c), head)
    whole = WeightedLayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.num_key_value_heads or c.num_attention_heads,
        head,
        rotary,
        plain.norm,
        MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias),
        c.sliding_window,
        c.attention_bias,
    )
    layer = LayerSpec(whole, None, name="", rotary=rotary)
    return replace(plain, layers=(layer,) * c.num_hidden_layers)


FAMILY = Family(
    model_types=("doge",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
