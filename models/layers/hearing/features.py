"""What models that hear read of a recording: mel spectrograms, and placeholders for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.audio.bands import htk_bank, periodic_hann, powers
from rushlight.models.audio.mel import mel_filters
from rushlight.models.generation.pictures import Picture
from rushlight.models.layers.speech.samples import RATE
from rushlight.models.small_files import small_json

log = logging.getLogger("rushlight")
Samples = npt.NDArray[np.float32]
HOP, N_FFT = 160, 400


def whisper_mels(samples: Samples, bins: int) -> npt.NDArray[np.float32]:
    """Whisper's features (bins, n // 160) of samples (n,), computed in float64; see `LogMel`."""
    padded = np.pad(samples.astype(np.float64), N_FFT // 2, "reflect")
    bands = powers(padded, periodic_hann(N_FFT), HOP, N_FFT)[: len(samples) // HOP]
    logs = np.log10(np.maximum(bands @ mel_filters(bins, N_FFT, RATE).T, 1e-10))
    logs = np.maximum(logs, logs.max() - 8.0)
    return np.ascontiguousarray(((logs + 4.0) / 4.0).T, np.float32)


def stacked_mels(samples: Samples, bins: int, n_fft: int, window: int) -> npt.NDArray[np.float32]:
    """Pairs of frames (n // 320, 2 * bins) in HTK's mels, as torchaudio and Granite have them."""
    before = (n_fft - window) // 2
    hann = np.pad(periodic_hann(window), (before, n_fft - window - before))
    padded = np.pad(samples.astype(np.float64), n_fft // 2, "reflect")
    bank = htk_bank(bins, n_fft // 2 + 1, 0.0, RATE / 2, RATE)
    logs = np.log10(np.maximum(powers(padded, hann, HOP, n_fft) @ bank.T, 1e-10))
    logs = np.maximum(logs, logs.max() - 8.0) / 4.0 + 1.0
    return np.asarray(logs[: len(logs) // 2 * 2].reshape(-1, 2 * bins), np.float32)


def settings_of(files: Mapping[str, bytes], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the checkpoint's feature extractor, those of its processor beside them.

    fixed: what can have one value only. FormatError for another.
    """
    outer = small_json(files, "processor_config.json")
    inner = outer.get("feature_extractor", outer.get("audio_processor"))
    if not isinstance(inner, dict):
        inner = small_json(files, "preprocessor_config.json")
    settings = {**outer, **inner}
    for key, value in {"sampling_rate": RATE, "hop_length": HOP, **fixed}.items():
        setting = settings.get(key, value)
        if setting != value or isinstance(setting, bool):
            raise FormatError(
                f"the processor's {key} {brief(setting)} is not supported: {value} is"
            )
    return settings


def whole_setting(settings: Mapping[str, Any], name: str, usual: int) -> int:
    """A setting that is a whole number of 1 or more; FormatError for something else."""
    value = settings.get(name, usual)
    if type(value) is not int or not 0 < value <= 1 << 24:
        raise FormatError(f"the processor's {name} is {brief(value)}; it must be a whole number")
    return value


def sound_of(inputs: dict[str, npt.NDArray[Any]], text: str, count: int) -> Picture:
    """What a model reads of a sound of so many samples; `text` stands for it in a prompt."""
    return Picture(inputs, text, (1, count))


@dataclass(frozen=True)
class WindowProcessor:
    """Windows of `seconds`, each with features and frames of its own, up to `most` windows.

    together: features are of the whole recording, filled up to a multiple of the window, and so are
    the placeholders. rows: how many placeholders so many real frames have. place: of one.
    """

    bins: int
    seconds: int
    most: int
    rows: Callable[[int], int]
    place: str
    together: bool = False

    def __call__(self, samples: Samples, alone: bool = True) -> Picture:
        """What a model reads of samples (n,), 16000 a second."""
        size, count = self.seconds * RATE, len(samples)
        windows = max(1, -(-count // size))
        if windows > self.most:
            log.warning(
                "a recording of %d s is read up to %d s, which is what the model hears",
                count // RATE, self.most * self.seconds,
            )  # fmt: skip
            windows = self.most
            samples = samples[: windows * size]
        filled = np.pad(samples, (0, windows * size - len(samples)))
        per = size // HOP
        if self.together:
            mels = whisper_mels(filled, self.bins).reshape(self.bins, windows, per)
            features, frames = np.ascontiguousarray(mels.transpose(1, 0, 2)), [per] * windows
        else:
            parts = filled.reshape(windows, size)
            features = np.stack([whisper_mels(window, self.bins) for window in parts])
            real = [min(size, len(samples) - i * size) for i in range(windows)]
            frames = [-(-n // HOP) for n in real]
        inputs: dict[str, npt.NDArray[Any]] = {
            "features": features,
            "frames": np.array(frames, np.int64),
        }
        return sound_of(inputs, self.place * sum(map(self.rows, frames)), count)


@dataclass(frozen=True)
class ChunkProcessor:
    """A recording as it is, of `least` samples or more, with frames filled up to chunks."""

    bins: int
    chunk: int
    least: int
    rows: Callable[[int], int]
    place: str

    def __call__(self, samples: Samples, alone: bool = True) -> Picture:
        """What a model reads of samples (n,), 16000 a second."""
        count = len(samples)
        samples = np.pad(samples, (0, max(0, self.least - count)))
        mels = whisper_mels(samples, self.bins)
        frames = mels.shape[1]
        mels = np.pad(mels, ((0, 0), (0, -frames % self.chunk)))
        inputs: dict[str, npt.NDArray[Any]] = {
            "features": mels[None],
            "frames": np.array([frames], np.int64),
        }
        return sound_of(inputs, self.place * self.rows(frames), count)


@dataclass(frozen=True)
class PairProcessor:
    """Granite's pairs of frames; `block` of them make `rows` placeholders."""

    bins: int
    n_fft: int
    window: int
    block: int
    rows: int
    place: str

    def __call__(self, samples: Samples, alone: bool = True) -> Picture:
        """What a model reads of samples (n,), 16000 a second."""
        filled = np.pad(samples, (0, max(0, self.n_fft - len(samples))))
        pairs = stacked_mels(filled, self.bins, self.n_fft, self.window)
        inputs: dict[str, npt.NDArray[Any]] = {
            "features": pairs[None],
            "frames": np.array([len(pairs)], np.int64),
        }
        rows = -(-len(pairs) // self.block) * self.rows
        return sound_of(inputs, self.place * rows, len(samples))
