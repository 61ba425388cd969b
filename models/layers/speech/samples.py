"""Samples as models of raw audio take them: their shape, and how a checkpoint scales them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.small_files import small_json

RATE = 16000  # samples a second, of every family that writes text


# Settings of transformers' feature extractors that change features, and what is supported.
_SHARED = {"sampling_rate": RATE, "padding_value": 0, "padding_side": "right"}
_FIXED: dict[str, dict[str, Any]] = {
    "Wav2Vec2FeatureExtractor": _SHARED | {"feature_size": 1},
    "SeamlessM4TFeatureExtractor": {"sampling_rate": RATE, "stride": 2},
    "ParakeetFeatureExtractor": _SHARED
    | {"hop_length": 160, "n_fft": 512, "win_length": 400, "preemphasis": 0.97},
    "CohereAsrFeatureExtractor": _SHARED
    | {"hop_length": 160, "n_fft": 512, "win_length": 400, "preemphasis": 0.97},
    "Speech2TextFeatureExtractor": _SHARED | {"dither": 0},
    "WhisperFeatureExtractor": _SHARED
    | {
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "dither": 0,
    },
}


def stored_settings(files: Mapping[str, bytes], kind: str, **fixed: Any) -> dict[str, Any]:
    """The settings of the feature extractor `kind`, of processor_config.json's or else of
    preprocessor_config.json.

    fixed: further settings that can have one value only. FormatError for another kind, and for a
    setting that would change features and is not supported. Other keys are ignored.
    """
    name = "processor_config.json"
    outer = small_json(files, name)
    inner = outer.get("feature_extractor", outer.get("audio_processor"))
    if not isinstance(inner, dict):
        name = "preprocessor_config.json"
        inner = small_json(files, name)
    for key, value in {"feature_extractor_type": kind, **_FIXED[kind], **fixed}.items():
        told = inner.get(key, value)
        if told != value or isinstance(told, bool):
            raise FormatError(f"{name}: {key} {brief(told)} is not supported; supported: {value}")
    return inner


def stored_normalization(files: Mapping[str, bytes], usual: bool) -> bool:
    """do_normalize of a Wav2Vec2FeatureExtractor's file, true if absent there; null is false.

    usual: what it is without a file.

    FormatError as of `stored_settings`, or for what is neither true nor false.
    """
    stored = stored_settings(files, "Wav2Vec2FeatureExtractor")
    normalizes = stored.get("do_normalize", True) if stored else usual
    if normalizes is not None and not isinstance(normalizes, bool):
        raise FormatError(f"do_normalize is {brief(normalizes)}; it must be true or false")
    return bool(normalizes)


def normalized(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Samples (n,) with mean 0 and variance 1."""
    wide = samples.astype(np.float64)
    return np.asarray((wide - wide.mean()) / np.sqrt(wide.var() + 1e-7), np.float32)


def samples_of_a_frame(convs: Sequence[tuple[int, int, int]]) -> int:
    """How many samples one frame needs, by convolutions of channels, kernel and stride."""
    n = 1
    for _, kernel, stride in reversed(convs):
        n = (n - 1) * stride + kernel
    return n


def check_samples(name: str, samples: Tensor, mask: Tensor | None, least: int) -> None:
    """Raise ValueError unless samples are (batch, n), n at least `least`, and the mask is alike.

    TypeError for whole numbers.
    """
    if samples.ndim != 2 or samples.shape[1] < least:
        raise ValueError(
            f"{name}: samples are {samples.shape}; they must be (batch, {least} at least)"
        )
    if not samples.dtype.is_floating_point:
        raise TypeError(f"{name}: samples are {samples.dtype.name}; they must be float32")
    if mask is not None and mask.shape != samples.shape:
        raise ValueError(f"{name}: attention_mask is {mask.shape}; samples are {samples.shape}")
