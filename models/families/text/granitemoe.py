"""Granite 3's mixtures of experts (Granite Team, 2024), some with an expert of every token."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.families.text import granite
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.parts import gate_and_up, gate_and_up_rows

ARCHITECTURES = ("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM")
NAMES = DecoderNames(mlp="")  # the layer itself has the experts, and the one of every token
INSIDE = MLPNames(
    gate="block_sparse_moe.gate_proj",
    up="block_sparse_moe.up_proj",
    down="block_sparse_moe.output_linear",
    router="block_sparse_moe.router.layer",
    experts="",
    shared="shared_mlp",
)
SHARED = MLPNames(down="output_linear")


@dataclass
class Config(granite.Config):
    """The keys of config.json that the model depends on."""

    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    shared_intermediate_size: int = 0
    model_type: str = "granitemoe"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    always = c.shared_intermediate_size
    # The softmax of the chosen scores is that of all, divided by the sum of the chosen.
    experts = ExpertsSpec(
        c.num_local_experts,
        c.num_experts_per_tok,
        c.intermediate_size,
        c.hidden_act,
        shared=MLPSpec(always, c.hidden_act, names=SHARED) if always else None,
        names=INSIDE,
    )
    plain = granite.describe(c)
    layers = tuple(replace(layer, mlp=experts) for layer in plain.layers)
    return replace(plain, layers=layers, names=NAMES)


_STACKS = {
    "ffn_gate_inp": INSIDE.router,
    "ffn_gate_exps": INSIDE.gate,
    "ffn_up_exps": INSIDE.up,
    "ffn_down_exps": INSIDE.down,
    "ffn_gate_shexp": f"{INSIDE.shared}.{SHARED.gate}",
    "ffn_up_shexp": f"{INSIDE.shared}.{SHARED.up}",
    "ffn_down_shexp": f"{INSIDE.shared}.{SHARED.down}",
}


def adjust(config: dict[str, Any]) -> None:
    """A file with an expert of every token is of the other class."""
    granite.GGUF.adjust(config)
    if config.get("shared_intermediate_size"):
        config.update(model_type="granitemoeshared", architectures=[ARCHITECTURES[1]])


GGUF = Architecture(
    "granitemoe",
    "GraniteMoeForCausalLM",
    keys={
        **granite.GGUF.keys,
        "num_local_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "shared_intermediate_size": "expert_shared_feed_forward_length",
    },
    adjust=adjust,
    transforms=granite.GGUF.transforms,
    decoder=NAMES,
    mlp=INSIDE,
    parts={f"blk.{{}}.{theirs}": f"model.layers.{{}}.{ours}" for theirs, ours in _STACKS.items()},
)

FAMILY = Family(
    model_types=("granitemoe", "granitemoeshared"),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={
        **gate_and_up("block_sparse_moe.input_linear.weight", "block_sparse_moe."),
        **gate_and_up_rows("shared_mlp.input_linear.weight", "shared_mlp."),
    },
    gguf_types=("granitemoe",),
    gguf=GGUF,
)
