"""JetMoE (Shen et al., 2024): experts in attention as well as in the feed-forward part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.attention_experts import AttentionExpertsSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.parts import gate_and_up, renamed

ARCHITECTURES = ("JetMoeForCausalLM",)
INSIDE = MLPNames(down="output_linear", router="router.layer", experts="")
PARTS = dict(gate_and_up("mlp.input_linear.weight", "mlp."))
for _name in ("bias", "router.layer.weight", "input_linear.weight", "output_linear.weight"):
    PARTS |= renamed(f"attention.experts.{_name}", f"attention.mixture.{_name}")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    # The latter is that of the key heads for each expert.
    neutral = {"aux_loss_coef": (), "num_attention_heads": ()}

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_key_value_heads: int = 16
    kv_channels: int = 128
    intermediate_size: int = 5632
    max_position_embeddings: int = 4096
    activation_function: str = "silu"
    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "jetmoe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    rotary = rotary_of(vars(c), c.kv_channels)
    attention = AttentionExpertsSpec(
        c.hidden_size,
        c.num_key_value_heads,
        c.kv_channels,
        c.num_local_experts,
        c.num_experts_per_tok,
        rotary,
    )
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.activation_function,
        shift=True,
        names=INSIDE,
    )
    layer = LayerSpec(attention, experts, rotary=rotary)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (layer,) * c.num_hidden_layers,
        norm=NormSpec("rms", 1e-6),
        last_norm=NormSpec("rms", c.rms_norm_eps),
        tied=bool(c.tie_word_embeddings),
        names=DecoderNames(attention="self_attention"),
    )


FAMILY = Family(
    model_types=("jetmoe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    parts=PARTS,
)
