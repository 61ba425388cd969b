"""HRM-Text (Wang et al., 2025): two stacks that run in turn, with gated attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.blocks.looped import CycledDecoder
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.parts import Split, gate_and_up_rows, renamed

ARCHITECTURES = ("HrmTextForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on.

    prefix_lm: of callers that say which tokens are an instruction; all others read forward alone.
    """

    neutral = {"L_bp_cycles": (), "prefix_lm": ()}

    head_dim: int | None = 128
    H_cycles: int = 2
    L_cycles: int = 3
    embedding_scale: float | None = None
    initializer_range: float = 0.02
    num_layers_per_stack: int | None = None
    model_type: str = "hrm_text"


def describe(c: Config) -> DecoderSpec:
    """The description of one stack that a configuration asks for."""
    choose("attention_bias", c.attention_bias, (False,))
    count = c.num_layers_per_stack or c.num_hidden_layers
    plain = llama.describe(replace(c, num_hidden_layers=count, num_key_value_heads=None))
    scale = 1 / c.initializer_range if c.embedding_scale is None else c.embedding_scale
    return replace(
        each_attention(plain, lambda _, a: replace(a, gate_over="each")),
        norm=NormSpec("rms", c.rms_norm_eps, weight=False),
        embedding_scale=scale,
        names=DecoderNames(layers="L_module.layers", norm=None),
    )


def make(c: Config, spec: DecoderSpec) -> CycledDecoder:
    """The model of a description."""
    return CycledDecoder(c, spec, c.H_cycles, c.L_cycles)


def _quarter(number: int, t: Tensor) -> Tensor:
    rows = t.shape[0] // 4
    return t[number * rows : (number + 1) * rows].contiguous()


# A matrix with the rows of the gate, q, k and v.
FOUR: dict[str, Callable[[Tensor], Tensor]] = {
    f".self_attn.{name}_proj.weight": partial(_quarter, i)
    for i, name in enumerate(("gate", "q", "k", "v"))
}

FAMILY = Family(
    model_types=("hrm_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False, make=make),
    parts={
        ".attn.gqkv_proj.weight": Split(FOUR, lambda *t: cat(list(t))),
        **renamed(".attn.o_proj.weight", ".self_attn.o_proj.weight"),
        **gate_and_up_rows(".mlp.gate_up_proj.weight", ".mlp."),
    },
)
