"""Voice activity: silero-vad's probabilities and segments, in parts, on devices, on the shell."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.models.audio.files import load
from rushlight.models.speech.activity import Activity

GOLDENS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "activity.json").read_text("utf-8")
)


@pytest.mark.parametrize("name", ["silero-vad", "silero-vad-8k"])
def test_probabilities_are_those_of_the_package(
    recordings: ModuleType, name: str, device: str
) -> None:
    model = rl.models.load(name, device)
    samples = load(recordings.recording("beckett")).samples
    golden = GOLDENS["probabilities"][str(model.rate)]
    if device == "webgpu":  # a few seconds are many dispatches
        samples, golden = samples[:40_960], golden[:80]
    given = samples if model.rate == 16000 else np.ascontiguousarray(samples[::2])
    found = model(rl.tensor(given[None], device=device)).numpy()[0]
    np.testing.assert_allclose(found, golden, atol=1e-4 if device == "webgpu" else 5e-6)


def test_audio_in_parts_has_the_probabilities_of_the_whole() -> None:
    model = rl.models.load("silero-vad")
    samples = np.random.default_rng(0).standard_normal((2, 512 * 75 + 100)).astype(np.float32)
    whole = model(rl.tensor(samples)).numpy()
    first, state = model.listen(rl.tensor(samples[:, : 512 * 7]))
    rest, _ = model.listen(rl.tensor(samples[:, 512 * 7 :]), state)
    assert whole.shape == (2, 76)
    joined = np.concatenate([first.numpy(), rest.numpy()], 1)
    np.testing.assert_allclose(joined, whole, atol=1e-6)
    fresh = model(rl.tensor(samples[:, 512 * 7 :])).numpy()
    assert np.abs(fresh - rest.numpy()).max() > 1e-5  # the state matters
    with pytest.raises(ValueError, match=r"must be \(batch, n\)"):
        model(rl.zeros(512))


@pytest.mark.parametrize("number", range(4))
def test_segments_are_those_of_the_package(number: int) -> None:
    one = GOLDENS["tracks"][number]
    chunk = 512 if one["rate"] == 16000 else 256
    for told, expected in zip(GOLDENS["settings"], one["segments"], strict=True):
        found = Activity(**told).parts(one["track"], one["rate"], chunk, one["samples"])
        assert [list(part) for part in found] == expected, told


def test_the_task_finds_six_phrases(recordings: ModuleType) -> None:
    pipe = rl.pipeline("voice-activity-detection")
    found = pipe(recordings.recording("beckett"), probabilities=True)
    assert len(found["probabilities"]) == 312 and found["duration"] == pytest.approx(9.96, abs=0.01)
    starts = [s["start"] for s in found["segments"]]
    assert len(starts) >= 5 and starts == sorted(starts)  # one phrase each
    assert all(s["start"] < s["end"] and s["probability"] > 0.5 for s in found["segments"])
    assert pipe(np.zeros(16000, np.float32))["segments"] == []


def test_the_command_prints_seconds(
    recordings: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["vad", str(recordings.recording("beckett"))]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert all(float(start) < float(end) for start, end in lines) and len(lines) >= 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.5}, "between 0 and 1"),
        ({"padding": -1.0}, "a number of seconds"),
        ({"max_speech": 0.1}, "at least 0.16"),
    ],
)
def test_settings_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rl.pipeline("voice-activity-detection", **options)
