"""DeepSeekMoE (Dai et al., 2024): LLaMA with experts, of which some are of every token."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import ROUTED
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.routing import RoutingSpec
from rushlight.models.layers.shared_experts import SHARED, experts_of

ARCHITECTURES = ("DeepseekForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    moe_intermediate_size: int = 1407
    n_shared_experts: int | None = None
    n_routed_experts: int | None = None
    num_experts_per_tok: int = 0
    moe_layer_freq: int = 1
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = False
    scoring_func: str = "softmax"
    routed_scaling_factor: float = 1.0
    model_type: str = "deepseek"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("scoring_func", c.scoring_func, ("softmax",))
    plain, dense = llama.describe(c), MLPSpec(c.intermediate_size, c.hidden_act)
    if c.n_routed_experts is None:
        return plain
    experts = experts_of(c, RoutingSpec(normalized=c.norm_topk_prob))
    every = max(c.moe_layer_freq, 1)
    return with_mlps(
        plain, lambda i: dense if i < c.first_k_dense_replace or i % every else experts
    )


GGUF = Architecture(
    "deepseek",
    "DeepseekForCausalLM",
    keys=ROUTED,
    transforms=llama.GGUF.transforms,
    mlp=SHARED,
)

FAMILY = Family(
    model_types=("deepseek",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("deepseek",),
    gguf=GGUF,
)
