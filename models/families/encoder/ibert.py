"""I-BERT (Kim et al., 2021): RoBERTa whose checkpoints can be trained on to compute in integers.

As they are published they compute in floats; what integers would need is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import ROBERTA

ARCHITECTURES = ("IBertModel",)
BASE_PREFIX = "ibert."
HEADS = ROBERTA
# The ends of names of what integers need: ranges, scales, and copies of weights.
INTEGERS = (
    "act_scaling_factor", "bias_integer", "fc_scaling_factor", "shift", "weight_integer",
    "weight_scaling_factor", "x_max", "x_min",
)  # fmt: skip


@dataclass
class Config(roberta.Config):
    """The keys of config.json."""

    neutral = {**roberta.Config.neutral, "force_dequant": ()}

    quant_mode: bool = False
    model_type: str = "ibert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("quant_mode", c.quant_mode, (False,))
    choose("hidden_act", c.hidden_act, ("gelu",))
    return roberta.describe(c, pooler)


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether the model does without a tensor: what integers need."""
    return name.rpartition(".")[2] in INTEGERS


FAMILY = Family(
    model_types=("ibert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
    unused=unused,
)
