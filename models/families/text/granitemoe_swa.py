"""Granite's experts with windows and sinks (IBM, 2026): a base of positions for each layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.text import granitemoe
from rushlight.models.layers.building import by_bases, decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.parts import gate_and_up, gate_and_up_rows, renamed

ARCHITECTURES = ("GraniteMoeSWAForCausalLM",)
INSIDE = "block_sparse_moe."


@dataclass
class Config(granitemoe.Config):
    """The keys of config.json that the model depends on."""

    sliding_window: int | None = 128
    layer_types: Any = None
    layer_rope_theta: Any = None
    model_type: str = "granitemoe_swa"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    bases = by_bases(c)
    return each_attention(granitemoe.describe(c), lambda i, a: replace(bases(i, a), sinks=True))


FAMILY = replace(
    granitemoe.FAMILY,
    model_types=("granitemoe_swa",),
    architectures=ARCHITECTURES,
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={
        **gate_and_up(f"{INSIDE}experts.gate_up_proj", INSIDE),
        **renamed(f"{INSIDE}experts.down_proj", f"{INSIDE}output_linear.weight"),
        **renamed(f"{INSIDE}router.weight", f"{INSIDE}router.layer.weight"),
        **gate_and_up_rows("shared_mlp.input_linear.weight", "shared_mlp."),
    },
    gguf_types=(),
    gguf=None,
)
