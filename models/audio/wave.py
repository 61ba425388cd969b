"""Writing of WAV files, in parts where the sound is still being made."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.files.replacing import write_whole
from rushlight.models.audio.files import FASTEST, SLOWEST

_HEAD = 44
_UNKNOWN = 0xFFFFFFFF
_MOST = _UNKNOWN - _HEAD  # bytes of samples that a RIFF file can say


def wav_bytes(samples: npt.ArrayLike, rate: int) -> bytes:
    """A WAV file of samples in [-1, 1], (n,) or (channels, n), in 16 bits; louder ones are cut.

    rate: samples a second. ValueError for another shape or rate, and samples that are not finite.
    """
    values = np.asarray(samples)
    if values.ndim not in (1, 2) or not values.size:
        raise ValueError(
            f"wav_bytes: samples are {values.shape}; they must be (n,) or (channels, n)"
        )
    channels = 1 if values.ndim == 1 else len(values)
    if channels > 255:
        raise ValueError(f"wav_bytes: samples have {channels} channels; they must be (channels, n)")
    data = _pcm(values if values.ndim == 1 else values.T)
    if len(data) > _MOST:
        raise ValueError(f"wav_bytes: {len(data)} bytes of samples are too many for a WAV file")
    return _head(rate, channels, len(data)) + data


def save(path: str | Path, samples: npt.ArrayLike, rate: int) -> None:
    """Write samples to the WAV file `path`, which appears when it is whole.

    `samples`: in [-1, 1], (n,) or (channels, n), as `wav_bytes` takes them; `rate`: samples a
    second. Raises ValueError as that does, and OSError where nothing can be written.
    """
    write_whole(path, wav_bytes(samples, rate))


def streamed(parts: Iterable[npt.ArrayLike], rate: int) -> Iterator[bytes]:
    """A WAV file piece by piece, whose length is not known when it begins: for a pipe or a player.

    parts: samples (n,). `rate`: samples a second.
    """
    yield _head(rate, 1, None)
    for part in parts:
        yield _pcm(np.asarray(part))


def _head(rate: int, channels: int, size: int | None) -> bytes:
    if not SLOWEST <= rate <= FASTEST:
        raise ValueError(f"wav: {rate} samples a second; it must be {SLOWEST} to {FASTEST}")
    total = _UNKNOWN if size is None else size + _HEAD - 8
    form = struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    data = struct.pack("<I", _UNKNOWN if size is None else size)
    return b"RIFF" + struct.pack("<I", total) + b"WAVEfmt " + form + b"data" + data


def _pcm(values: npt.NDArray[np.floating]) -> bytes:
    if not np.isfinite(values).all():
        raise ValueError("wav: samples are not finite")
    return bytes(np.rint(np.clip(values, -1, 1) * 32767).astype("<i2").tobytes())
