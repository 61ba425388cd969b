"""Samples as models of raw audio take them: their shape, and how a checkpoint scales them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.loading import small_json

RATE = 16000  # samples a second, of every family that writes text


def stored_normalization(files: Mapping[str, bytes], usual: bool) -> bool:
    """do_normalize of preprocessor_config.json or processor_config.json, or what is usual.

    FormatError for another rate than 16000, or what is neither true nor false.
    """
    inner = small_json(files, "processor_config.json").get("feature_extractor")
    given = small_json(files, "preprocessor_config.json")
    given = given or (inner if isinstance(inner, dict) else {})
    found = given.get("do_normalize", usual)
    if not isinstance(found, bool):
        raise FormatError(f"do_normalize is {brief(found)}; it must be true or false")
    if given.get("sampling_rate", RATE) != RATE:
        raise FormatError(
            f"sampling_rate {brief(given['sampling_rate'])} is not supported; supported: {RATE}"
        )
    return found


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
