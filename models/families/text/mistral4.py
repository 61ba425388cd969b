"""Mistral 4 (Mistral AI, 2026): latent attention with warmer late queries, softmax experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v2
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import FLOATS, decoder_builder
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.parts import stacked_experts

ARCHITECTURES = ("Mistral4ForCausalLM",)
ORIGINAL = "original_max_position_embeddings"
POSITIONS = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 128.0,
    ORIGINAL: 8192,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}


@dataclass
class Config(deepseek_v2.Config):
    """The keys of config.json that the model depends on."""

    kv_lora_rank: int = 256
    q_lora_rank: int | None = 1024
    n_group: int | None = 1
    topk_group: int | None = 1
    n_routed_experts: int = 128
    n_shared_experts: int | None = 1
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 2048
    qk_nope_head_dim: int = 64
    norm_topk_prob: bool | None = True
    max_position_embeddings: int = 1048576
    model_type: str = "mistral4"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if not c.rope_parameters and not c.rope_scaling:
        c.rope_parameters = POSITIONS
    told: dict[str, Any] = {**(c.rope_scaling or {}), **(c.rope_parameters or {})}
    beta: Any = told.get("llama_4_scaling_beta")
    context: Any = told.get(ORIGINAL)
    if type(beta) not in FLOATS or type(context) not in FLOATS or context <= 0:
        raise FormatError(
            f"config.json: rope_parameters has llama_4_scaling_beta {brief(beta)} and {ORIGINAL} "
            f"{brief(context)}; they must be numbers"
        )
    spec = deepseek_v2.describe_with(
        c,
        RoutingSpec(
            normalized=bool(c.norm_topk_prob), groups=c.n_group or 1, kept=c.topk_group or 1, best=2
        ),
    )
    layers = []
    for layer in spec.layers:
        assert isinstance(layer.attention, LatentSpec)
        layers.append(
            replace(layer, attention=replace(layer.attention, temperature=(beta, context)))
        )
    return replace(spec, layers=tuple(layers))


FAMILY = Family(
    model_types=("mistral4",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    parts=stacked_experts(),
)
