"""ZAYA 1 (Zyphra, 2025): convolved attention, one expert or none a token, scaled residuals."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.nn.parameter import parameter
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.zaya import ZayaLayer, ZayaSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import Decoder, DecoderSpec, LayerSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.parts import Split, gate_and_up

ARCHITECTURES = ("ZayaForCausalLM",)
EXPERTS = "mlp.experts."
FULL, SLIDING = "hybrid", "hybrid_sliding"
# What rope_parameters says where config.json does not have it.
POSITIONS: dict[str, dict[str, Any]] = {
    FULL: {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 128
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    rope_parameters: Any = None
    layer_types: Any = None
    sliding_window: int | None = None
    attention_bias: bool = False
    lm_head_bias: bool = False
    hidden_act: str = "silu"
    moe_intermediate_size: int = 2048
    num_experts: int = 16
    num_experts_per_tok: int = 1
    router_hidden_size: int = 256
    cca_time0: int = 2
    cca_time1: int = 2
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "zaya"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("num_experts_per_tok", c.num_experts_per_tok, (1,))
    count, kinds = c.num_hidden_layers, c.layer_types
    kinds = [FULL] * count if kinds is None else kinds
    known = isinstance(kinds, list) and all(kind in (FULL, SLIDING) for kind in kinds)
    if not known or len(kinds) != count:
        raise FormatError(
            f"config.json: layer_types is {brief(kinds)}; it must have {count} entries, each "
            f"{FULL} or {SLIDING}"
        )
    if SLIDING in kinds and c.sliding_window is None:
        raise FormatError(f"config.json: sliding_window is null; layers are {SLIDING}")
    told = POSITIONS if c.rope_parameters is None else c.rope_parameters

    def layer(kind: str) -> LayerSpec:
        if not isinstance(told, dict) or not isinstance(told.get(kind), dict):
            raise FormatError(
                f"config.json: rope_parameters is {brief(told)}; it must have an object {kind!r}"
            )
        shared = {
            "max_position_embeddings": c.max_position_embeddings,
            "partial_rotary_factor": 1.0,
            "rope_parameters": told[kind],
        }
        rotary = rotary_of(shared, c.head_dim)
        attention = AttentionSpec(
            c.num_attention_heads,
            c.num_key_value_heads,
            c.head_dim,
            bias=c.attention_bias,
            rotary=rotary,
            window=c.sliding_window if kind == SLIDING else None,
        )
        block = ZayaSpec(
            c.hidden_size,
            attention,
            (c.cca_time0, c.cca_time1),
            c.num_experts,
            c.moe_intermediate_size,
            c.router_hidden_size,
            count,
            c.hidden_act,
            c.rms_norm_eps,
        )
        return LayerSpec(block, None, name="", rotary=rotary)

    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        tuple(layer(kind) for kind in kinds),
        NormSpec("rms", c.rms_norm_eps),
        head_bias=c.lm_head_bias,
        tied=bool(c.tie_word_embeddings),
    )


_plain = decoder_builder(Config, describe, ARCHITECTURES, both_ways=False)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Decoder:
    """The model of a checkpoint with these tensor names, whose first layer scales the embedding."""
    model = _plain(config, names)
    base = model.get_submodule(model.spec.names.base)
    for name in ("scale", "bias"):
        setattr(base, f"input_hidden_states_{name}", parameter(model.spec.width))
    for layer in model.modules():
        if isinstance(layer, ZayaLayer) and layer.layer == 0:
            layer.before = (base,)
    return model


FAMILY = Family(
    model_types=("zaya",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    parts={
        **gate_and_up(f"{EXPERTS}gate_up_proj", EXPERTS),
        f"{EXPERTS}down_proj": Split({f"{EXPERTS}down_proj.weight": lambda t: t}, lambda t: t),
    },
)
