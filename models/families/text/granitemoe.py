"""Granite 3's mixtures of experts (Granite Team, 2024), gate and up in one stack."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import granite
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.parts import gate_and_up

ARCHITECTURES = ("GraniteMoeForCausalLM",)
NAMES = DecoderNames(mlp="block_sparse_moe")
INSIDE = MLPNames(down="output_linear", router="router.layer", experts="")


@dataclass
class Config(granite.Config):
    """The keys of config.json that the model depends on."""

    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    model_type: str = "granitemoe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    # The softmax of the chosen scores is that of all, divided by the sum of the chosen.
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        names=INSIDE,
    )
    plain = granite.describe(c)
    layers = tuple(replace(layer, mlp=experts) for layer in plain.layers)
    return replace(plain, layers=layers, names=NAMES)


_EACH = {"ffn_gate_exps": INSIDE.gate, "ffn_up_exps": INSIDE.up, "ffn_down_exps": INSIDE.down}
GGUF = Architecture(
    "granitemoe",
    "GraniteMoeForCausalLM",
    keys={
        **granite.GGUF.keys,
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
    },
    transforms=granite.GGUF.transforms,
    decoder=NAMES,
    mlp=INSIDE,
    parts={
        f"blk.{{}}.{theirs}": f"model.layers.{{}}.block_sparse_moe.{ours}"
        for theirs, ours in _EACH.items()
    },
)

FAMILY = Family(
    model_types=("granitemoe",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=gate_and_up("block_sparse_moe.input_linear.weight", "block_sparse_moe."),
    gguf_types=("granitemoe",),
    gguf=GGUF,
)
