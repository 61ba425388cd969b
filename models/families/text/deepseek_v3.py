"""DeepSeek V3 and R1 (DeepSeek, 2024): V2 with sigmoid scores and corrections to choose by."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v2
from rushlight.models.gguf.latent import latent
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.shared_experts import SHARED, predicts_further, routing_of

ARCHITECTURES = ("DeepseekV3ForCausalLM",)


@dataclass
class Config(deepseek_v2.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"num_mtp_layers": ()}  # none that predict further ahead are used

    first_k_dense_replace: int = 3
    n_group: int | None = 8
    topk_group: int | None = 4
    topk_method: str | None = "noaux_tc"
    n_routed_experts: int = 256
    n_shared_experts: int | None = 1
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 2048
    routed_scaling_factor: float = 2.5
    norm_topk_prob: bool | None = True
    scoring_func: str = "sigmoid"
    max_position_embeddings: int = 4096
    model_type: str = "deepseek_v3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("topk_method", c.topk_method, ("noaux_tc",))
    choose("scoring_func", c.scoring_func, ("sigmoid",))
    return deepseek_v2.describe_with(c, routing_of(c))


FAMILY = Family(
    model_types=("deepseek_v3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=predicts_further,
    gguf_types=("deepseek2/sigmoid",),
    gguf=latent("deepseek_v3", "DeepseekV3ForCausalLM", SHARED, "sigmoid"),
)
