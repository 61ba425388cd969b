"""Mixtral (Jiang et al., 2024): Mistral with a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import mistral
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames

ARCHITECTURES = ("MixtralForCausalLM",)
NAMES = DecoderNames(mlp="block_sparse_moe")
MLP = MLPNames("w1", "w3", "w2")


@dataclass
class Config(mistral.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    num_experts_per_tok: int = 2
    num_local_experts: int = 8
    router_jitter_noise: float = 0.0  # training only
    rope_theta: float = 1000000.0
    sliding_window: int | None = None
    model_type: str = "mixtral"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = mistral.describe(c)
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        names=MLP,
    )
    layers = tuple(replace(layer, mlp=experts) for layer in plain.layers)
    return replace(plain, layers=layers, names=NAMES)


GGUF = Architecture(
    "mixtral",
    "MixtralForCausalLM",
    keys={
        **mistral.GGUF.keys,
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
    },
    transforms=mistral.GGUF.transforms,
    fixed={"sliding_window": None},
    decoder=NAMES,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("mixtral",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("llama/experts",),
    gguf=GGUF,
)
