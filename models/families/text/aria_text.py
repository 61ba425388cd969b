"""Aria's language model (Rhymes, 2024): LLaMA with experts, of which some are of every token."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.building import decoder_builder, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.parts import Split, experts_in_halves

ARCHITECTURES = ("AriaTextForCausalLM",)
# Stacks by their names in published files, and by those that transformers 5 computes with.
STACKS = {
    f"mlp.{whole}": Split({f"mlp.{part}": take for part, take in of.parts.items()}, of.join)
    for whole, of in experts_in_halves().items()
}
OLDER = {"fc1.weight": "gate_up_proj", "fc2.weight": "down_proj"}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    # Of what sees.
    neutral = dict.fromkeys(("max_value_projector_patch_to_query_dict", "patch_size"), ())

    moe_num_experts: int = 8
    moe_topk: int = 2
    moe_num_shared_experts: int = 2
    model_type: str = "aria_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    # The softmax of the chosen scores is that of all, divided by the sum of the chosen.
    experts = ExpertsSpec(
        c.moe_num_experts,
        c.moe_topk,
        c.intermediate_size,
        shared=MLPSpec(
            c.intermediate_size * c.moe_num_shared_experts, c.hidden_act, bias=c.mlp_bias
        ),
        names=MLPNames(router="router", shared="shared_experts"),
    )
    return with_mlps(llama.describe(c), lambda _: experts)


FAMILY = Family(
    model_types=("aria_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts=STACKS
    | {f"mlp.experts.{older}": STACKS[f"mlp.experts.{newer}"] for older, newer in OLDER.items()},
)
