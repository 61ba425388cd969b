"""Reading of audio: WAV without any package, other formats through soundfile."""

from __future__ import annotations

import contextlib
import io
import struct
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.source import open_regular
from rushlight.models.audio import packed

Values = npt.NDArray[np.float32]
# What `load` holds in memory at most, in bytes; and what is read of a file at a time.
MOST, _PIECE = 2**31, 2**22
_MOST_CHUNKS = 10_000
_LONGEST_HEAD = 2048  # bytes of a fmt chunk
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
SLOWEST, FASTEST = 50, 1_000_000  # samples a second
_UNKNOWN = 0xFFFFFFFF  # a size that stands elsewhere, or nowhere


class Source(Protocol):
    """Sound that is read in parts: its samples a second, their number, and some of them."""

    @property
    def rate(self) -> int:
        """Samples a second."""

    @property
    def count(self) -> int:
        """The number of samples."""

    def read(self, start: int, stop: int) -> Values:
        """Samples start to stop, (n,) float32 in [-1, 1], channels mixed to one."""


@dataclass(frozen=True)
class Audio:
    """Sound: samples (n,) float32 in [-1, 1], channels mixed to one, and their number a second."""

    samples: Values
    rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.rate

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.samples)

    def read(self, start: int, stop: int) -> Values:
        """Samples start to stop."""
        return self.samples[start:stop]


def load(source: str | Path | bytes) -> Audio:
    """The audio of a file or of its bytes, with its own rate and its channels mixed to one.

    WAV of 8 to 32 bits, of floats, in mu-law, A-law, IMA ADPCM or Microsoft ADPCM needs no package,
    in either order of bytes; other formats need soundfile. Samples that are not finite become 0.
    FormatError for what is no audio, is damaged, holds no sample or less than 50 or more than
    1,000,000 a second, and for more than 2 GB of samples, which `open_audio` reads in parts.
    """
    file = open_audio(source)
    if file.count * 4 > MOST:
        raise FormatError(
            f"{file.name} holds {file.count} samples; at most {MOST // 4} fit in memory: read "
            "parts by rl.audio.open_audio"
        )
    return Audio(file.read(0, file.count), file.rate)


def open_audio(source: str | Path | bytes) -> AudioFile:
    """A file or its bytes as audio that is read in parts, as `load` reads it whole."""
    name = "the audio" if isinstance(source, bytes) else str(source)
    if isinstance(source, bytes):
        file: BinaryIO = io.BytesIO(source)
    elif not Path(source).is_file():
        raise FileNotFoundError(f"{source} is not a file")
    else:
        file = open_regular(source)
    try:
        head = file.read(12)
        wave = head[:4] in (b"RIFF", b"RF64", b"BW64", b"RIFX") and head[8:] == b"WAVE"
        audio = _wav(file, name) if wave else SoundFile(file, name)
        if not audio.count:
            raise FormatError(f"{name} holds no samples")
    except BaseException:
        file.close()
        raise
    weakref.finalize(audio, file.close)
    return audio


def _wav(file: BinaryIO, name: str) -> AudioFile:
    """A WAV file, by soundfile where its samples are of another kind than those known here."""
    try:
        return WavFile(file, name)
    except UnknownKind:
        with contextlib.suppress(FormatError):
            return SoundFile(file, name)
        raise


class UnknownKind(FormatError):
    """A WAV file whose samples are packed in another way."""


class AudioFile:
    """A `Source` that is a file. It is closed when nothing refers to it."""

    name: str
    rate: int
    count: int
    _frame: int  # bytes of a sample of all channels

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(self._values(0, 1).shape[1])

    def read(self, start: int, stop: int, channel: int | None = None) -> Values:
        """Samples start to stop, (n,) float32: fewer where the file ends.

        channel: only that one, in place of the mean of all. FormatError where the file cannot be
        read there.
        """
        start, stop = max(0, start), min(stop, self.count)
        samples = np.empty(max(0, stop - start), np.float32)
        step = max(1, _PIECE // self._frame)  # a file says how many channels it has
        for begin in range(start, stop, step):
            values = self._values(begin, min(step, stop - begin))
            target = samples[begin - start : begin - start + step]
            if len(values) != len(target):
                raise FormatError(f"{self.name} has changed: it ends after {begin + len(values)}")
            if channel is not None or values.shape[1] == 1:
                mixed = values[:, channel or 0].copy()
            else:
                mixed = values.mean(1, dtype=np.float32)
            np.nan_to_num(mixed, nan=0.0, posinf=0.0, neginf=0.0, copy=False)
            target[:] = mixed
        return samples

    def _values(self, at: int, count: int) -> Values:
        """The samples (count, channels) from `at` on."""
        raise NotImplementedError


class WavFile(AudioFile):
    """A RIFF file (Microsoft, 1991), or RF64 (EBU Tech 3306), which may be larger than 4 GB."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name, self._file = name, file
        end = file.seek(0, io.SEEK_END)
        file.seek(0)
        first, offset, head, long = file.read(8), 12, b"", None
        self._order: Any = ">" if first[:4] == b"RIFX" else "<"
        streamed = first[4:] in (bytes(4), b"\xff" * 4)  # it had no end when it was written
        for _ in range(_MOST_CHUNKS):
            file.seek(offset)
            kind = file.read(8)
            if len(kind) < 8:
                break
            (size,) = struct.unpack(f"{self._order}I", kind[4:])
            if kind[:4] == b"ds64":
                long = int.from_bytes(file.read(16)[8:], "little")
            elif kind[:4] == b"fmt ":
                head = file.read(min(size, _LONGEST_HEAD))
                if len(head) < 16:
                    raise FormatError(f"{name}: its fmt chunk has {len(head)} bytes; 16 are needed")
            elif kind[:4] == b"data":
                if not head:
                    raise FormatError(f"{name}: its samples come before their format")
                self._begin, rest = offset + 8, end - offset - 8
                if size == _UNKNOWN or (streamed and not size):
                    size = rest if long is None else long
                self._describe(head, min(size, rest))  # a file that ends early holds fewer
                return
            offset += 8 + size + size % 2
        raise FormatError(f"{name} is a WAV file without samples")

    def _describe(self, head: bytes, size: int) -> None:
        code, channels, rate, _, block, bits = struct.unpack_from(f"{self._order}2H2I2H", head)
        if code == _EXTENSIBLE and len(head) >= 26:
            (code,) = struct.unpack_from(f"{self._order}H", head, 24)
        self._blocks: packed.Blocks | None = None
        if code in (packed.IMA_ADPCM, packed.MS_ADPCM) and bits == 4 and channels and _usual(rate):
            self._blocks = packed.Blocks(code, channels, block, head, self._order, self.name)
            self._code, self.rate, self._frame = code, rate, 4 * channels
            # As libsndfile, which does not read where the last block's filling begins (fact).
            self.count = size // block * self._blocks.count
            return
        wide = -(-bits // 8)  # bytes; a number of other bits lies at their upper end
        known = (
            (code == _PCM and 1 <= wide <= 4)
            or (code == _FLOAT and bits in (32, 64))
            or (code in (packed.A_LAW, packed.MU_LAW) and bits == 8)
        )
        if not known or not channels or block != channels * wide or not _usual(rate):
            raise (FormatError if known else UnknownKind)(
                f"{self.name}: format {code} of {bits} bits, {channels} channels, {rate} samples a "
                "second is not supported; supported: PCM of 8 to 32 bits, floats of 32 or 64, "
                f"{', '.join(packed.NAMES.values())}, {SLOWEST} to {FASTEST} samples a second"
            )
        self._code, self._bits, self._channels = code, 8 * wide, channels
        self.rate, self._frame, self.count = rate, block, size // block

    def _values(self, at: int, count: int) -> Values:
        if self._blocks is not None:
            return self._of_blocks(self._blocks, at, count)
        self._file.seek(self._begin + at * self._frame)
        data = self._file.read(count * self._frame)
        data = data[: len(data) // self._frame * self._frame]
        bits, order = self._bits, self._order
        values: npt.NDArray[Any]
        if self._code == _FLOAT:
            values = np.frombuffer(data, f"{order}f{bits // 8}").astype(np.float32)
        elif self._code != _PCM:
            values = packed.law(self._code)[np.frombuffer(data, np.uint8)]
        elif bits == 8:
            values = (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / 128
        elif bits == 24:
            three = np.frombuffer(data, np.uint8).reshape(-1, 3)
            wide = np.zeros((len(three), 4), np.uint8)
            wide[:, 1:] = three if order == "<" else three[:, ::-1]
            values = wide.view("<i4")[:, 0].astype(np.float32) / np.float32(2**31)
        else:
            integers = np.frombuffer(data, f"{order}i{bits // 8}")
            values = integers.astype(np.float32) / np.float32(2 ** (bits - 1))
        return np.asarray(values.reshape(-1, self._channels), np.float32)

    def _of_blocks(self, blocks: packed.Blocks, at: int, count: int) -> Values:
        """Samples out of the blocks that hold them."""
        first, last = at // blocks.count, -(-(at + count) // blocks.count)
        self._file.seek(self._begin + first * blocks.size)
        data = self._file.read((last - first) * blocks.size)
        values = blocks.unpack(data[: len(data) // blocks.size * blocks.size])
        return values[at - first * blocks.count :][:count]


class SoundFile(AudioFile):
    """A file of another format, by soundfile."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        try:
            import soundfile
        except (ImportError, OSError):
            raise FormatError(
                f"{name} is no WAV file; other formats need soundfile: pip install "
                "'rushlight[audio]'"
            ) from None
        self.name = name
        self._errors = (soundfile.SoundFileError, RuntimeError, TypeError, ValueError)
        file.seek(0)
        try:
            self._file: Any = soundfile.SoundFile(file)
            self.rate, self._frame = int(self._file.samplerate), 4 * int(self._file.channels)
            self.count = int(self._file.frames)
        except self._errors as error:
            raise FormatError(f"{name} is no audio that soundfile reads: {error}") from None
        if not _usual(self.rate):
            raise FormatError(
                f"{name}: {self.rate} samples a second; {SLOWEST} to {FASTEST} are read"
            )
        if not self._reaches(self.count):  # a file that ends early, or whose head lies
            self.count = self._counted()

    def _reaches(self, count: int) -> bool:
        """Whether the last of so many samples can be read."""
        try:
            return count > 0 and len(self._values(count - 1, 1)) == 1
        except FormatError:
            return False

    def _counted(self) -> int:
        """The number of samples that there are, by reading all of them."""
        count, step = 0, max(1, _PIECE // self._frame)
        while True:
            try:
                more = len(self._values(count, step))
            except FormatError:
                return count
            if not more:
                return count
            count += more

    def _values(self, at: int, count: int) -> Values:
        try:
            if self._file.tell() != at:
                self._file.seek(at)
            values: Values = self._file.read(count, dtype="float32", always_2d=True)
        except self._errors as error:
            raise FormatError(f"{self.name} is no audio that soundfile reads: {error}") from None
        return values


def _usual(rate: int) -> bool:
    return SLOWEST <= rate <= FASTEST
