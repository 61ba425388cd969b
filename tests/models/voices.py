"""The table of models that speak: transformers' class and config.json of each row.

Goldens lie in data/voices/ROW.safetensors; tests/parity/make_voice_goldens.py makes them.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

VITS: dict[str, Any] = {
    "model_type": "vits", "vocab_size": 19, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "window_size": 3, "ffn_dim": 20, "flow_size": 10,
    "num_speakers": 3, "speaker_embedding_size": 5, "upsample_initial_channel": 12,
    "upsample_rates": [3, 2], "upsample_kernel_sizes": [7, 4], "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [2, 1]], "duration_predictor_flow_bins": 4,
    "duration_predictor_num_flows": 3, "prior_encoder_num_flows": 2,
    "prior_encoder_num_wavenet_layers": 2, "posterior_encoder_num_wavenet_layers": 1,
    "spectrogram_bins": 7, "noise_scale": 0.5, "noise_scale_duration": 0.7, "speaking_rate": 0.4,
    "sampling_rate": 8000, "wavenet_dilation_rate": 2,
}  # fmt: skip
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "vits": ("VitsModel", VITS),
    "vits-plain": (
        "VitsModel",
        VITS
        | {"use_stochastic_duration_prediction": False, "num_speakers": 1, "window_size": 9}
        | {"speaker_embedding_size": 0, "use_bias": False, "hidden_act": "gelu"}
        | {"ffn_kernel_size": 4, "leaky_relu_slope": 0.2, "layer_norm_eps": 1e-3}
        | {"duration_predictor_filter_channels": 14, "duration_predictor_tail_bound": 3.0},
    ),
}
TOKENS = 7  # fewer than a window of 9 reaches


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name: random numbers that depend on nothing else."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    scale = 0.15 if len(shape) > 1 else 0.3
    values = draws.normal(size=shape) * scale
    if name.endswith(("original0", "norm.weight", "layer_norm.weight")):
        values = 1 + values
    return np.asarray(values).astype(np.float32)


def ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """The tokens of two texts."""
    return np.random.default_rng(0).integers(1, vocab, (2, TOKENS))


def mask_of() -> npt.NDArray[np.int64]:
    """Which are no padding: all of the first text, and four of the second."""
    return np.asarray([[1] * TOKENS, [1] * 4 + [0] * (TOKENS - 4)])


def noise_of(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Normal numbers, the same for a shape."""
    return np.random.default_rng(len(shape) + shape[1]).standard_normal(shape, np.float32)
