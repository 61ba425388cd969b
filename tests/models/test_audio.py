"""Reading, resampling and log-mel features of audio, against their definitions in float64."""

from __future__ import annotations

import importlib
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.models.audio.inputs import samples_of


def wav(data: bytes, code: int, channels: int, rate: int, bits: int, extra: bytes = b"") -> bytes:
    """A RIFF file of these samples."""
    block = channels * bits // 8
    head = struct.pack("<HHIIHH", code, channels, rate, rate * block, block, bits) + extra
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head
    body += (
        b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"data" + struct.pack("<I", len(data)) + data
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


WAVE = np.sin(np.arange(64) / 5) * 0.9


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_whole_numbers_of_every_width(bits: int, channels: int) -> None:
    scaled = np.round(WAVE * (2 ** (bits - 1) - 1)).astype(np.int64)
    stored = scaled + 128 if bits == 8 else scaled
    one = b"".join(int(v).to_bytes(bits // 8, "little", signed=bits > 8) for v in stored)
    size = bits // 8
    data = b"".join(one[i : i + size] * channels for i in range(0, len(one), size))
    found = rl.audio.load(wav(data, 1, channels, 22050, bits))
    assert found.rate == 22050 and found.samples.shape == (64,)
    np.testing.assert_allclose(found.samples, scaled / 2 ** (bits - 1), atol=1e-6)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_floats_and_samples_that_are_not_finite(kind: str) -> None:
    values = np.array([0.5, -0.25, np.nan, np.inf], kind)
    code = struct.pack("<HHIH", 22, 8, 0, 3) + bytes(14)
    raw = wav(values.tobytes(), 0xFFFE, 1, 96000, values.itemsize * 8, code)
    found = rl.audio.load(raw)
    assert found.samples.tolist() == [0.5, -0.25, 0, 0] and found.rate == 96000
    assert found.seconds == 4 / 96000 and found.samples.dtype == np.float32


def test_a_file_that_ends_early_holds_what_is_there() -> None:
    raw = wav(np.arange(10, dtype="<i2").tobytes(), 1, 1, 8000, 16)
    assert len(rl.audio.load(raw[:-5]).samples) == 7
    assert len(rl.audio.load(wav(b"\1\0", 1, 1, 8000, 16)).samples) == 1


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (wav(b"", 1, 1, 8000, 16), "holds no samples"),
        (wav(b"12", 1, 0, 8000, 16), "0 channels"),
        (wav(b"12", 49, 1, 8000, 8), "format 49 of 8 bits"),
        (wav(b"12", 1, 1, 0, 16), "0 samples a second"),
        (wav(b"12", 1, 1, 8000, 16)[:40], "without samples"),
        (b"RIFF\0\0\0\0WAVEdata\2\0\0\0ab", "before their format"),
        (b"RIFF\0\0\0\0WAVEfmt \2\0\0\0ab", "16 are needed"),
    ],
)
def test_damaged_files_are_refused(raw: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        rl.audio.load(raw)


def test_other_formats_ask_for_soundfile(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(FormatError, match=r"rushlight\[audio\]"):
        rl.audio.load(b"fLaC and more")
    with pytest.raises(FileNotFoundError, match=r"not\.wav is not a file"):
        rl.audio.load(tmp_path / "not.wav")


@pytest.mark.parametrize("old", [8000, 22050, 44100, 48000])
def test_a_tone_keeps_its_frequency_at_another_rate(old: int, device: str) -> None:
    new, hz = 16000, 440
    tone = np.sin(2 * np.pi * hz * np.arange(old) / old)
    found = rl.audio.resample(rl.tensor(tone, dtype=rl.float32, device=device), old, new)
    assert found.shape == (new,)
    expected = np.sin(2 * np.pi * hz * np.arange(new) / new)
    middle = slice(200, -200)  # the ends lack their surroundings
    assert np.abs(found.numpy() - expected)[middle].max() < 2e-3


def test_what_the_lower_rate_cannot_hold_is_removed() -> None:
    high = np.sin(2 * np.pi * 9000 * np.arange(44100) / 44100).astype(np.float32)
    found = rl.audio.resample(rl.tensor(high), 44100, 16000).numpy()
    assert np.abs(found[200:-200]).max() < 0.02
    with pytest.raises(ValueError, match="rates 0 and 16000"):
        rl.audio.resample(rl.tensor(high), 0, 16000)


@pytest.mark.parametrize("mels", [80, 128])
def test_log_mel_features(mels: int, device: str) -> None:
    x = np.random.default_rng(mels).normal(size=16000) * np.linspace(0, 0.3, 16000)
    padded = np.pad(x.astype(np.float32).astype(np.float64), 200, "reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frames = np.lib.stride_tricks.sliding_window_view(padded, 400)[::160][:100] * window
    powers = np.abs(np.fft.rfft(frames)) ** 2
    logs = np.log10(np.maximum(rl.audio.mel_filters(mels, 400, 16000) @ powers.T, 1e-10))
    expected = (np.maximum(logs, logs.max() - 8) + 4) / 4
    found = rl.audio.LogMel(mels)(rl.tensor(x, dtype=rl.float32, device=device))
    assert found.shape == (mels, 100)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_mel_filters_are_slaneys() -> None:
    filters = rl.audio.mel_filters(80, 400, 16000)
    # Below 1000 Hz the tops are evenly spaced, and every triangle has the same area.
    tops = filters.argmax(1)[:20] * 40
    assert np.all(np.diff(tops) >= 0) and filters.shape == (80, 201)
    np.testing.assert_allclose(filters[40:].sum(1) * 40, 1, rtol=0.08)
    with pytest.raises(ValueError, match="more than 200"):
        rl.audio.LogMel()(rl.zeros(200))


def test_audio_of_callers() -> None:
    x = np.linspace(-0.5, 0.5, 48000, dtype=np.float32)
    for given in (
        x,
        rl.tensor(x),
        {"samples": x.tolist(), "rate": 16000},
        rl.audio.Audio(x, 16000),
    ):
        np.testing.assert_array_equal(samples_of(given, 16000), x)
    assert len(samples_of({"samples": x, "rate": 48000}, 16000)) == 16000
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        samples_of(np.zeros((2, 3), np.float32), 16000)
    with pytest.raises(ValueError, match="rate is 0"):
        samples_of({"samples": x, "rate": 0}, 16000)


@pytest.mark.parametrize("old", [44101, 999_983, 11_117])
def test_rates_without_common_divisors_need_few_filters(
    old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("rushlight.models.audio.resample")
    made, sizes = module._kernel, []

    def noted(*rates: int) -> Any:
        sizes.append(made(*rates)[0].size)
        return made(*rates)

    monkeypatch.setattr(module, "_kernel", noted)
    tone = np.sin(2 * np.pi * 440 * np.arange(old) / old)
    found = rl.audio.resample(rl.tensor(tone, dtype=rl.float32), old, 16000)
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert found.shape == (16000,) and np.abs(found.numpy() - expected)[200:-200].max() < 0.06
    assert sizes and max(sizes) < 3_000_000


def test_files_of_endless_chunks_are_refused() -> None:
    raw = b"RIFF" + bytes(4) + b"WAVE" + (b"junk" + bytes(4)) * 200_000
    with pytest.raises(FormatError, match="without samples"):
        rl.audio.load(raw)


def test_parts_of_long_audio_join() -> None:
    rate = 8000
    tone = np.sin(2 * np.pi * 100 * np.arange(130 * rate) / rate).astype(np.float32)
    found = samples_of(rl.audio.Audio(tone, rate), 16000)
    expected = np.sin(2 * np.pi * 100 * np.arange(130 * 16000) / 16000)
    assert np.abs(found - expected)[1000:-1000].max() < 2e-3


@pytest.mark.parametrize("rate", [16000, 8000])
@pytest.mark.parametrize("kind", ["array", "tensor", "pair", "file"])
def test_samples_that_are_no_numbers_are_silence(rate: int, kind: str, tmp_path: Path) -> None:
    samples = np.full(4000, 0.25, np.float32)
    samples[[7, 100, 3999]] = np.nan, np.inf, -np.inf
    given: Any = samples
    if kind == "tensor":
        given = rl.tensor(samples)
    elif kind == "pair":
        given = {"samples": samples, "rate": rate}
    elif kind == "file":
        given = tmp_path / "a.wav"
        given.write_bytes(wav(samples.tobytes(), 3, 1, rate, 32))
    found = samples_of(given, 16000)
    values = np.asarray(found[: len(found)])
    assert np.isfinite(values).all() and np.abs(values).max() < 0.5
    if rate == 16000 or kind in ("array", "tensor"):
        assert values[7] == values[100] == values[3999] == 0 and values[8] == 0.25
