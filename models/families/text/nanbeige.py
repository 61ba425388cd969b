"""Nanbeige 4 (Nanbeige LLM Lab, 2026): LLaMA whose layers may run several times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.blocks.looped import LoopedDecoder
from rushlight.models.layers.building import decoder_builder

ARCHITECTURES = ("NanbeigeForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_loops: int | None = 1
    skip_loop_final_norm: bool = False
    model_type: str = "nanbeige"


def make(c: Config, spec: Any) -> LoopedDecoder:
    """The model of a description."""
    return LoopedDecoder(c, spec, max(c.num_loops or 1, 1), not c.skip_loop_final_norm)


GGUF = Architecture(
    "nanbeige",
    ARCHITECTURES[0],
    keys={
        **llama.GGUF.keys,
        "num_loops": "num_loops",
        "skip_loop_final_norm": "skip_loop_final_norm",
    },
    transforms=llama.GGUF.transforms,
)

FAMILY = replace(
    llama.FAMILY,
    model_types=("nanbeige",),
    architectures=ARCHITECTURES,
    config=Config,
    build=decoder_builder(Config, llama.describe, ARCHITECTURES, both_ways=False, make=make),
    gguf_types=("nanbeige",),
    gguf=GGUF,
    gguf_others={},
)
