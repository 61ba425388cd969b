"""The channels of a recording, each as samples that are read as they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.files import AudioFile, Values, open_audio
from rushlight.models.audio.inputs import Samples, Sound, samples_of


class _Channel:
    """One channel of a file."""

    def __init__(self, file: AudioFile, number: int) -> None:
        self.file, self.number = file, number
        self.rate, self.count = file.rate, file.count

    def read(self, start: int, stop: int) -> Values:
        """Samples start to stop."""
        return self.file.read(start, stop, self.number)


def channels_of(value: Any, rate: int, count: int) -> list[Sound]:
    """`count` channels of a recording at `rate`, each samples (n,): see `samples_of`.

    value: as of `samples_of`, or samples (channels, n), alone or in {"samples", "rate"}. What has
    another number of channels is mixed to one, which is all of them. ValueError as of `samples_of`.
    """
    value = open_audio(value) if isinstance(value, str | Path | bytes) else value
    if isinstance(value, AudioFile):
        if count > 1 and value.channels == count:
            return [Samples(_Channel(value, number), rate) for number in range(count)]
    elif (rows := _rows(value)) is not None:
        own = value["rate"] if isinstance(value, Mapping) else rate
        rows = rows if len(rows) == count else rows.mean(0, keepdims=True)
        sounds = [samples_of({"samples": row, "rate": own}, rate) for row in rows]
        return sounds if len(sounds) == count else sounds * count
    return [samples_of(value, rate)] * count


def _rows(value: Any) -> Any:
    """Samples of two dims; None for what has not."""
    samples = value["samples"] if isinstance(value, Mapping) else value
    if isinstance(samples, Tensor):
        samples = samples.detach().cpu().numpy()
    if not isinstance(samples, np.ndarray) or samples.ndim != 2 or samples.dtype.kind != "f":
        return None
    return samples.astype(np.float32) if 0 not in samples.shape else None
