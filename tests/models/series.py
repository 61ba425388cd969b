"""The table of models of time series: transformers' class and config.json of each row.

Goldens lie in data/series/ROW.safetensors; tests/parity/make_series_goldens.py makes them.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

PATCHTST: dict[str, Any] = {
    "model_type": "patchtst", "num_input_channels": 3, "context_length": 23, "patch_length": 5,
    "patch_stride": 3, "d_model": 24, "num_attention_heads": 3, "ffn_dim": 40,
    "num_hidden_layers": 2, "prediction_length": 7,
}  # fmt: skip
TIMESFM: dict[str, Any] = {
    "model_type": "timesfm", "patch_length": 4, "context_length": 24, "horizon_length": 7,
    "freq_size": 3, "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 20,
    "head_dim": 6, "num_attention_heads": 3, "quantiles": [0.1, 0.5, 0.9],
}  # fmt: skip
BOLT: dict[str, Any] = {
    "model_type": "t5", "vocab_size": 2, "d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2,
    "num_decoder_layers": 1, "num_heads": 3, "feed_forward_proj": "relu", "dense_act_fn": "relu",
    "is_gated_act": False, "decoder_start_token_id": 0, "pad_token_id": 0,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
    "chronos_config": {"context_length": 24, "prediction_length": 7, "input_patch_size": 4,
                       "input_patch_stride": 4, "quantiles": [0.1, 0.5, 0.9],
                       "use_reg_token": True},
}  # fmt: skip
ALONE = {**BOLT["chronos_config"], "use_reg_token": False}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "chronos_bolt": ("ChronosBoltModelForForecasting", BOLT),
    "chronos_bolt-alone": (
        "ChronosBoltModelForForecasting",
        BOLT | {"chronos_config": ALONE, "vocab_size": 1, "num_decoder_layers": 2},
    ),
    "patchtst": ("PatchTSTForPrediction", PATCHTST),
    "patchtst-across": (
        "PatchTSTForPrediction",
        PATCHTST
        | {"channel_attention": True, "norm_type": "layernorm", "pre_norm": False, "bias": False}
        | {"share_embedding": False, "pooling_type": None, "scaling": "mean"}
        | {"activation_function": "relu"},
    ),
    "patchtst-first": (
        "PatchTSTForPrediction",
        PATCHTST | {"use_cls_token": True, "scaling": None, "patch_stride": 5},
    ),
    "patchtst-most": ("PatchTSTForPrediction", PATCHTST | {"pooling_type": "max"}),
    "timesfm": ("TimesFmModelForPrediction", TIMESFM),
    "timesfm-places": (
        "TimesFmModelForPrediction",
        TIMESFM | {"use_positional_embedding": True, "min_timescale": 2, "max_timescale": 50},
    ),
}


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name: random numbers that depend on nothing else."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    found = draws.normal(size=shape) * (0.25 if len(shape) > 1 else 0.5)
    found = np.abs(found) + 0.5 if name.endswith("running_var") else found
    return np.asarray(found).astype(np.float32)


def series_of(config: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Two rows of numbers for the whole context: (2, length, channels)."""
    length = (config.get("chronos_config") or config)["context_length"]
    shape = 2, length, config.get("num_input_channels", 1)
    walk = np.random.default_rng(6).normal(size=shape).cumsum(1) + 3
    return np.asarray(walk).astype(np.float32)


def known_of(config: dict[str, Any]) -> npt.NDArray[np.float32]:
    """1 for known numbers: the second row begins with missing ones."""
    known = np.ones(series_of(config).shape, np.float32)
    known[1, :9] = 0
    return known
