"""Phi 3.5 MoE (Abdin et al., 2024): layer norms, LongRoPE and experts chosen by SparseMixer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, LoadError
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.routing import RoutingSpec

ARCHITECTURES = ("PhimoeForCausalLM", "PhiMoEForCausalLM")
NAMES, FED = DecoderNames(mlp="block_sparse_moe"), MLPNames("w1", "w3", "w2")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 131072
    original_max_position_embeddings: int | None = None
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1000000.0
    sliding_window: int | None = None
    num_experts_per_tok: int = 2
    num_local_experts: int = 16
    input_jitter_noise: float = 0.0  # training only
    router_jitter_noise: float = 0.01
    lm_head_bias: bool = False
    model_type: str = "phimoe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if c.num_experts_per_tok != 2:
        raise FormatError(f"config.json: num_experts_per_tok is {c.num_experts_per_tok}, not 2")

    plain = each_attention(
        llama.describe(c),
        lambda _, a: replace(
            a,
            window=c.sliding_window,
            rotary=rotary_of(vars(c), a.head_dim, amplitudes=True),
        ),
    )
    experts = ExpertsSpec(
        c.num_local_experts,
        2,
        c.intermediate_size,
        c.hidden_act,
        normalized=False,
        names=FED,
        routing=RoutingSpec("sparsemixer", jitter=c.router_jitter_noise),
    )
    return replace(
        plain,
        layers=tuple(replace(layer, mlp=experts) for layer in plain.layers),
        norm=NormSpec("layer", c.rms_norm_eps),
        head_bias=c.lm_head_bias,
        names=NAMES,
    )


def refuse(model: Any) -> dict[str, Any]:
    """No file is written, as llama.cpp computes another model than the published one."""
    raise LoadError(
        "phimoe cannot be written as GGUF: llama.cpp computes it with RMS norms and with shares of "
        "experts that sum to one",
        hint="use the folder itself; GGUF files of phimoe are read",
    )


GGUF = Architecture(
    "phimoe",
    "PhimoeForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "sliding_window": "attention.sliding_window",
        "original_max_position_embeddings": "rope.scaling.original_context_length",
    },
    fixed={"lm_head_bias": True},
    decoder=NAMES,
    mlp=FED,
    metadata=refuse,
)

FAMILY = Family(
    model_types=("phimoe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("phimoe",),
    gguf=GGUF,
)
