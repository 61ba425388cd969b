"""Chronos-Bolt (Ansari et al., 2024), whose config.json says T5 and this class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.seq2seq import t5
from rushlight.models.layers.building import FLOATS, numbers_of
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.distances import RelativeSpec
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec
from rushlight.models.layers.series_bolt import BoltModel, BoltSpec

ARCHITECTURES = ("ChronosBoltModelForForecasting",)


@dataclass
class Config(t5.Config):
    """The keys of config.json that the model depends on."""

    # The numbers of tokens, and what training depends on.
    neutral = {
        name: ()
        for name in "reg_token_id pad_token_id eos_token_id classifier_dropout dropout_rate "
        "initializer_factor n_positions use_cache is_encoder_decoder".split()
    }

    decoder_start_token_id: int = 0
    chronos_config: dict[str, Any] = field(default_factory=dict)
    model_type: str = "chronos_bolt"


def build(config: dict[str, Any], names: Collection[str]) -> BoltModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told: Mapping[str, Any] = c.chronos_config
    sizes = ("context_length", "prediction_length", "input_patch_size")
    given: list[Any] = [told.get(name) for name in sizes]
    if not all(type(size) is int for size in given):
        raise FormatError(f"config.json: chronos_config lacks a number of {', '.join(sizes)}")
    context, horizon, patch = given
    choose("input_patch_stride", told.get("input_patch_stride", patch), (patch,))
    shares = numbers_of("quantiles", told.get("quantiles"), None, FLOATS)
    last = bool(told.get("use_reg_token"))
    own = BoltSpec(
        context, horizon, patch, tuple(map(float, shares)), last, c.decoder_start_token_id
    )
    decoders = c.num_layers if c.num_decoder_layers is None else c.num_decoder_layers
    spec = Seq2SeqSpec(
        c.vocab_size,
        c.d_model,
        t5.LONGEST,
        t5.stack_of(c, "encoder", c.num_layers, 1),
        t5.stack_of(c, "decoder", decoders, 2),
        NormSpec("rms", c.layer_norm_epsilon),
        "before",
        relative=RelativeSpec(
            c.relative_attention_num_buckets, c.relative_attention_max_distance, False
        ),
    )
    return BoltModel(c, spec, own)


FAMILY = Family(
    model_types=("chronos_bolt",),
    tasks=("time-series-forecasting",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
