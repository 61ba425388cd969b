"""GLM-4.5 (GLM Team, 2025): LLaMA with half of each head rotated, experts as in DeepSeek V3."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import CORRECTED, ROUTED, scored
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.shared_experts import SHARED, experts_of, predicts_further, routing_of

ARCHITECTURES = ("Glm4MoeForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"num_mtp_layers": ()}  # none that predict further ahead are used

    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    partial_rotary_factor: float | None = None
    use_qk_norm: bool = False
    moe_intermediate_size: int = 1408
    num_experts_per_tok: int = 8
    n_shared_experts: int = 1
    n_routed_experts: int = 128
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    first_k_dense_replace: int = 1
    norm_topk_prob: bool = True
    model_type: str = "glm4_moe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            out_bias=False,
            norm=NormSpec("rms", c.rms_norm_eps) if c.use_qk_norm else None,
            rotary=rotary_of(vars(c), a.head_dim, share=0.5),
        )

    experts = experts_of(c, routing_of(c))
    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    return with_mlps(
        each_attention(llama.describe(c), changed),
        lambda i: dense if i < c.first_k_dense_replace else experts,
    )


GGUF = Architecture(
    "glm4_moe",
    "Glm4MoeForCausalLM",
    keys=ROUTED,
    mlp=SHARED,
    metadata=scored,
    adjust=lambda config: config.update(use_qk_norm=config["attention_norms"]),
    parts=CORRECTED | {"blk.{}.post_attention_norm": "model.layers.{}.post_attention_layernorm"},
)

FAMILY = Family(
    model_types=("glm4_moe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=predicts_further,
    gguf_types=("glm4moe",),
    gguf=GGUF,
)
