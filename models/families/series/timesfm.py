"""TimesFM (Das et al., 2024): a decoder over patches of a time series, with quantiles."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.building import FLOATS, numbers_of
from rushlight.models.layers.series_patches import TimesModel, TimesSpec

ARCHITECTURES = ("TimesFmModelForPrediction",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    # A number that marks missing ones; here these are told.
    neutral = {"pad_val": ()}

    patch_length: int = 32
    context_length: int = 512
    horizon_length: int = 128
    freq_size: int = 3
    num_hidden_layers: int = 50
    hidden_size: int = 1280
    intermediate_size: int = 1280
    head_dim: int = 80
    num_attention_heads: int = 16
    tolerance: float = 1e-6
    rms_norm_eps: float = 1e-6
    quantiles: Any = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    use_positional_embedding: bool = False
    min_timescale: int = 1
    max_timescale: int = 10000
    model_type: str = "timesfm"


def build(config: dict[str, Any], names: Collection[str]) -> TimesModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    spec = TimesSpec(
        c.context_length,
        c.horizon_length,
        c.patch_length,
        c.freq_size,
        c.num_hidden_layers,
        c.hidden_size,
        c.intermediate_size,
        c.num_attention_heads,
        c.head_dim,
        c.rms_norm_eps,
        c.tolerance,
        tuple(float(q) for q in numbers_of("quantiles", c.quantiles, None, FLOATS)),
        (c.min_timescale, c.max_timescale) if c.use_positional_embedding else None,
    )
    return TimesModel(c, spec)


FAMILY = Family(
    model_types=("timesfm",),
    tasks=("time-series-forecasting",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    unused=lambda name, config: name.endswith("position_emb.inv_timescales"),
)
