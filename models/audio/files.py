"""Reading of audio: WAV without any package, other formats through soundfile."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError

# A file may say that it holds more than memory does: this many bytes are read at most.
MOST = 2**31
_MOST_CHUNKS = 10_000
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


@dataclass(frozen=True)
class Audio:
    """Sound: samples (n,) float32 in [-1, 1], channels mixed to one, and their number a second."""

    samples: npt.NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.rate


def load(source: str | Path | bytes) -> Audio:
    """The audio of a file or of its bytes, with its own rate and its channels mixed to one.

    WAV of 8 to 32 bits, or of floats, needs no package; other formats need soundfile. Samples that
    are not finite become 0. FormatError for what is no audio, is damaged or holds no sample.
    """
    name = "the audio" if isinstance(source, bytes) else str(source)
    raw = source if isinstance(source, bytes) else _read(Path(source))
    if raw[:4] == b"RIFF" and raw[8:12] == b"WAVE":
        values, rate = _wav(raw, name)
    else:
        values, rate = _other(raw, name)
    if not len(values):
        raise FormatError(f"{name} holds no samples")
    mixed = values.mean(1, dtype=np.float32) if values.ndim > 1 else values
    finite = np.nan_to_num(mixed, nan=0.0, posinf=0.0, neginf=0.0)
    return Audio(np.ascontiguousarray(finite, np.float32), rate)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file")
    size = path.stat().st_size
    if size > MOST:
        raise FormatError(f"{path} has {size} bytes; at most {MOST} are read, so cut it into parts")
    return path.read_bytes()


def _wav(raw: bytes, name: str) -> tuple[npt.NDArray[Any], int]:
    """The samples (n, channels) of a RIFF file (Microsoft, 1991), and their rate."""
    at, head = 12, None
    for _ in range(_MOST_CHUNKS):
        if at + 8 > len(raw):
            break
        kind, size = raw[at : at + 4], int.from_bytes(raw[at + 4 : at + 8], "little")
        body = memoryview(raw)[at + 8 : at + 8 + size]
        if kind == b"fmt ":
            if len(body) < 16:
                raise FormatError(f"{name}: its fmt chunk has {len(body)} bytes; 16 are needed")
            head = bytes(body)
        elif kind == b"data":
            if head is None:
                raise FormatError(f"{name}: its samples come before their format")
            return _samples(head, body, name)
        at += 8 + size + size % 2
    raise FormatError(f"{name} is a WAV file without samples")


def _samples(head: bytes, body: memoryview, name: str) -> tuple[npt.NDArray[Any], int]:
    code, channels, rate, _, block, bits = (
        int.from_bytes(head[i:j], "little")
        for i, j in ((0, 2), (2, 4), (4, 8), (8, 12), (12, 14), (14, 16))
    )
    if code == _EXTENSIBLE and len(head) >= 26:
        code = int.from_bytes(head[24:26], "little")
    width = bits // 8
    known = (code == _PCM and bits in (8, 16, 24, 32)) or (code == _FLOAT and bits in (32, 64))
    if not known or not channels or block != channels * width or not 1 <= rate <= 1_000_000:
        raise FormatError(
            f"{name}: format {code} of {bits} bits, {channels} channels, {rate} samples a second "
            "is not supported; supported: PCM of 8, 16, 24 or 32 bits, floats of 32 or 64"
        )
    count = len(body) // block  # a file that ends early holds fewer
    data = bytes(body[: count * block])
    values: npt.NDArray[Any]
    if code == _FLOAT:
        values = np.frombuffer(data, f"<f{width}").astype(np.float32)
    elif bits == 8:
        values = (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / 128
    elif bits == 24:
        three = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(three), 4), np.uint8)
        wide[:, 1:] = three
        values = wide.view("<i4")[:, 0].astype(np.float32) / 2**31
    else:
        values = np.frombuffer(data, f"<i{width}").astype(np.float32) / np.float32(2 ** (bits - 1))
    return values.reshape(count, channels), rate


def _other(raw: bytes, name: str) -> tuple[npt.NDArray[Any], int]:
    try:
        import soundfile
    except (ImportError, OSError):
        raise FormatError(
            f"{name} is no WAV file; other formats need soundfile: pip install 'rushlight[audio]'"
        ) from None
    try:
        with soundfile.SoundFile(io.BytesIO(raw)) as file:
            if file.frames * file.channels * 4 > MOST:
                raise FormatError(f"{name} says that it holds {file.frames} samples; cut it")
            return file.read(dtype="float32", always_2d=True), int(file.samplerate)
    except (soundfile.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name} is no audio that soundfile reads: {error}") from None
