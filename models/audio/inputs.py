"""Audio as callers give it to a task: files, arrays, tensors, and what a page sends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.audio.files import Audio, load
from rushlight.models.audio.resample import resample

_MINUTE = 60


def is_audio(value: Any) -> bool:
    """Whether `samples_of` takes the value."""
    if isinstance(value, Mapping):
        return {*value} == {"samples", "rate"}
    return isinstance(value, str | Path | bytes | memoryview | Audio | Tensor | np.ndarray)


def samples_of(value: Any, rate: int) -> npt.NDArray[np.float32]:
    """Samples (n,) at `rate` of a file's path or bytes, an Audio, {"samples", "rate"}, or samples.

    Samples alone are taken to have the rate. ValueError for samples that are not one dim of
    floating numbers.
    """
    found = _audio(value, rate)
    if found.rate == rate:
        return found.samples
    # In parts of a minute with their surroundings, so that memory stays bounded.
    step, edge = _MINUTE * found.rate, found.rate // 2
    parts = []
    for at in range(0, len(found.samples), step):
        low = max(0, at - edge)
        part = from_numpy(found.samples[low : at + step + edge])
        made = resample(part, found.rate, rate).numpy()
        skip = (at - low) * rate // found.rate
        parts.append(made[skip : skip + _MINUTE * rate])
    count = -(-len(found.samples) * rate // found.rate)
    return np.concatenate(parts)[:count]


def _audio(value: Any, rate: int) -> Audio:
    if isinstance(value, Audio):
        return value
    if isinstance(value, str | Path | bytes):
        return load(value)
    own = rate
    if isinstance(value, Mapping):
        value, own = value["samples"], value["rate"]
        if isinstance(own, bool) or not isinstance(own, int | float) or not 1 <= own <= 1_000_000:
            raise ValueError(f"audio: rate is {own!r}; it must be 1 to 1000000 samples a second")
        if isinstance(value, list):
            value = np.asarray(value, np.float32)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    samples = np.asarray(value)
    if samples.ndim != 1 or samples.dtype.kind != "f" or not len(samples):
        raise ValueError(
            f"audio: samples are {samples.dtype} of shape {samples.shape}; they must be floating "
            "numbers of one dim (mix channels by their mean)"
        )
    clean = np.nan_to_num(samples.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    return Audio(clean, int(own))
