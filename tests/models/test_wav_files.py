"""WAV files of every kind: the samples that libsndfile reads, in parts too, and what is refused."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError

pytestmark = pytest.mark.native

FILES = dict(np.load(Path(__file__).parent / "data" / "wav_files.npz"))
NAMES = [name for name in FILES if not name.endswith("samples")]


def content(name: str) -> bytes:
    """The bytes of one file."""
    return bytes(FILES[name].tobytes())


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_those_of_libsndfile(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)  # it is not asked
    right = FILES[f"{name} samples"]
    found = rl.audio.load(content(name))
    assert found.rate == 16000 and found.samples.shape == right.shape
    np.testing.assert_array_equal(found.samples, right)
    path = tmp_path / "a.wav"
    path.write_bytes(content(name))
    parts = rl.audio.open_audio(path)
    for start, stop in ((0, 1), (1, 90), (88, 999), (500, 1021), (1000, 5000)):
        np.testing.assert_array_equal(parts.read(start, stop), right[start:stop])
    # Cut off in its midst, it holds what is there.
    size = len(content(name)) - 20
    some = rl.audio.load(content(name)[:size]).samples
    assert 0 < len(some) < len(right)
    np.testing.assert_array_equal(some, right[: len(some)])


def _chunk(kind: bytes, data: bytes, odd: bool = True) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _wav(*chunks: bytes, size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def _format(code: int, channels: int, rate: int, block: int, bits: int, more: bytes = b"") -> bytes:
    head = struct.pack("<HHIIHH", code, channels, rate, rate * block, block, bits)
    return _chunk(b"fmt ", head + more)


DATA = np.array([100, -200, 300], "<i2").tobytes()
PCM = _format(1, 1, 8000, 2, 16)


def test_odd_chunks_and_sizes() -> None:
    data = _chunk(b"data", DATA)
    for raw in (
        _wav(PCM, data),
        _wav(_chunk(b"LIST", b"odd"), PCM, _chunk(b"fact", b"\3\0\0\0"), data),
        _wav(PCM, data, _chunk(b"id3 ", b"x" * 7)),
        _wav(PCM, _chunk(b"JUNK", b""), data, size=0),
        _wav(PCM, b"data" + struct.pack("<I", 0xFFFFFFFF) + DATA, size=0xFFFFFFFF),
        _wav(PCM, b"data" + struct.pack("<I", 0) + DATA, size=0),  # as a stream is written
        _wav(_format(1, 1, 8000, 2, 16, b"\0\0"), data),
        _wav(_format(1, 1, 8000, 2, 12), data),  # 12 bits at the upper end of 16
        b"RF64\xff\xff\xff\xffWAVE"
        + _chunk(b"ds64", struct.pack("<QQQI", 0, 6, 3, 0))
        + PCM
        + b"data\xff\xff\xff\xff"
        + DATA,
    ):
        found = rl.audio.load(raw)
        assert (found.samples * 32768).tolist() == [100, -200, 300]


def test_what_is_refused() -> None:
    data = _chunk(b"data", DATA)
    for raw, words in (
        (_wav(_format(1, 1, 1, 2, 16), data), "1 samples a second is not supported; .*50 to 10000"),
        (_wav(_format(1, 1, 2_000_000, 2, 16), data), "2000000 samples a second"),
        (_wav(_format(17, 3, 8000, 24, 4), data), "IMA ADPCM in blocks of 24 bytes with 3 "),
        (_wav(_format(17, 1, 8000, 3, 4), data), "IMA ADPCM in blocks of 3 bytes"),
        (_wav(_format(2, 2, 8000, 13, 4), data), "Microsoft ADPCM in blocks of 13 bytes"),
        (_wav(_format(0x31, 1, 8000, 65, 0), data), "format 49 .*supported: PCM of 8 to 32 bits"),
        (_wav(data, PCM), "samples come before their format"),
        (_wav(PCM), "without samples"),
        (_wav(_format(17, 1, 8000, 512, 4), data), "holds no samples"),
        (_wav(PCM, _chunk(b"data", b""), _chunk(b"LIST", b"x" * 99)), "holds no samples"),
    ):
        with pytest.raises(FormatError, match=words):
            rl.audio.load(raw)


def test_rates_far_apart_are_refused() -> None:
    wave: Any = rl.zeros(8)
    for old, new in ((1, 1_000_000), (1_000_000, 1), (1, 16000), (10**9, 3)):
        with pytest.raises(ValueError, match="are more than 1000 times apart"):
            rl.audio.resample(wave, old, new)
    assert rl.audio.resample(wave, 1000, 1_000_000).shape == (8000,)
    with pytest.raises(ValueError, match="rate is 1; it must be 50 to 1000000"):
        from rushlight.models.audio.inputs import samples_of

        samples_of({"samples": np.zeros(4, np.float32), "rate": 1}, 16000)


def test_adpcm_in_long_files_is_read_in_parts(tmp_path: Path) -> None:
    """Any place of a file is reached by its block."""
    raw = content("WAV IMA_ADPCM LITTLE 1")
    at = raw.index(b"data") + 8
    many = raw[:at] + raw[at:] * 40
    path = tmp_path / "long.wav"
    path.write_bytes(many[: at - 4] + struct.pack("<I", len(many) - at) + many[at:])
    right = FILES["WAV IMA_ADPCM LITTLE 1 samples"]
    found = rl.audio.open_audio(path)
    assert found.count == 40 * len(right)
    np.testing.assert_array_equal(found.read(len(right) * 39, len(right) * 40), right)
