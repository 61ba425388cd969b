"""dots.llm1 (rednote, 2025): Qwen3's attention, windows in later layers, DeepSeek V3's experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import CORRECTED, ROUTED, scored
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention, kinds_of, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.shared_experts import SHARED, experts_of, routing_of

ARCHITECTURES = ("Dots1ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    moe_intermediate_size: int = 1408
    n_shared_experts: int | None = None
    n_routed_experts: int = 0
    n_group: int | None = 1
    topk_group: int | None = 1
    num_experts_per_tok: int = 0
    first_k_dense_replace: int = 0
    norm_topk_prob: bool | None = False
    routed_scaling_factor: float = 1.0
    sliding_window: int | None = 4096
    max_window_layers: int = 62
    layer_types: Any = None
    model_type: str = "dots1"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    within = kinds_of(
        c.layer_types,
        c.num_hidden_layers,
        lambda i: c.sliding_window is not None and i >= c.max_window_layers,
    )

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        window = c.sliding_window if within[layer] else None
        return replace(a, norm=NormSpec("rms", c.rms_norm_eps), window=window)

    dense = MLPSpec(c.intermediate_size, c.hidden_act)
    spec = each_attention(llama.describe(c), changed)
    if c.first_k_dense_replace >= c.num_hidden_layers:
        return spec
    experts = experts_of(c, routing_of(c))
    return with_mlps(spec, lambda i: dense if i < c.first_k_dense_replace else experts)


GGUF = Architecture(
    "dots1",
    "Dots1ForCausalLM",
    keys=ROUTED,
    mlp=SHARED,
    metadata=scored,
    parts=CORRECTED,
)

FAMILY = Family(
    model_types=("dots1",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("dots1",),
    gguf=GGUF,
)
