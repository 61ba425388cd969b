"""Audio as callers give it to a task: files, arrays, tensors, and what a page sends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.files import (
    FASTEST,
    SLOWEST,
    Audio,
    AudioFile,
    Source,
    Values,
    open_audio,
)
from rushlight.models.audio.resample import resampled

_STEP = 60  # seconds that are resampled at a time


def finite(values: Values) -> Values:
    """The values with silence in place of what is nan or infinite."""
    if np.isfinite(values).all():
        return values
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


class _Finite:
    """A source with silence where its samples are nan or infinite, as in damaged files."""

    def __init__(self, source: Source) -> None:
        self.source, self.rate, self.count = source, source.rate, source.count

    def read(self, start: int, stop: int) -> Values:
        """Samples start to stop."""
        return finite(self.source.read(start, stop))


class Samples:
    """Sound at a rate of one's own, read as it is asked for: s[a:b] is an array (n,) float32.

    Parts are those of the whole, resampled. A minute of the source is in memory at a time. Samples
    that are nan or infinite are silence.
    """

    def __init__(self, source: Source, rate: int) -> None:
        self.source: Source = _Finite(source)
        self.rate = rate
        self.count = -(-source.count * rate // source.rate)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, part: slice) -> Values:
        start, stop, step = part.indices(self.count)
        if step != 1:
            raise ValueError("samples are read one after the other: the step of a slice must be 1")
        return self.read(start, stop)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self[:].astype(dtype or np.float32, copy=False)

    def read(self, start: int, stop: int) -> Values:
        """Samples start to stop."""
        source = self.source
        if source.rate == self.rate:
            return source.read(start, stop)
        samples = np.empty(max(0, stop - start), np.float32)
        most = _STEP * self.rate
        for begin in range(start, stop, most):
            end = min(begin + most, stop)
            samples[begin - start : end - start] = resampled(source, begin, end, self.rate)
        return samples


Sound = Values | Samples


def is_audio(value: Any) -> bool:
    """Whether `samples_of` takes the value."""
    if isinstance(value, Mapping):
        return {*value} == {"samples", "rate"}
    kinds = str | Path | bytes | memoryview | Audio | AudioFile | Samples | Tensor | np.ndarray
    return isinstance(value, kinds)


def samples_of(value: Any, rate: int) -> Sound:
    """Samples (n,) at `rate` of a file's path or bytes, an Audio, {"samples", "rate"}, or samples.

    Samples alone are taken to have the rate. What lies in a file, or has another rate, is read as
    it is asked for. Samples that are nan or infinite are silence. ValueError for samples that are
    not one dim of floating numbers.
    """
    source = _source(value, rate)
    if isinstance(source, Audio) and source.rate == rate:
        return finite(source.samples)
    return Samples(source, rate)


def _source(value: Any, rate: int) -> Source:
    if isinstance(value, Audio | AudioFile | Samples):
        return value
    if isinstance(value, str | Path | bytes):
        return open_audio(value)
    old_rate = rate
    if isinstance(value, Mapping):
        value, old_rate = value["samples"], value["rate"]
        if (
            isinstance(old_rate, bool)
            or not isinstance(old_rate, int | float)
            or not (SLOWEST <= old_rate <= FASTEST)
        ):
            raise ValueError(
                f"audio: rate is {old_rate!r}; it must be {SLOWEST} to {FASTEST} samples a second"
            )
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
    return Audio(finite(samples.astype(np.float32)), int(old_rate))
