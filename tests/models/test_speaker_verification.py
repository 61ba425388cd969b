"""Voices with real weights: Resemblyzer's own results."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.audio.files import load

GOLDENS = load_safetensors(Path(__file__).parents[1] / "parity" / "data" / "heard.safetensors")


def test_voices_are_those_of_the_package(recordings: ModuleType) -> None:
    model = rl.models.load("resemblyzer")
    for name in ("jfk", "beckett"):
        samples = load(recordings.recording(name)).samples
        with rl.no_grad():
            vector = model.voice(samples).numpy()
        np.testing.assert_allclose(vector, GOLDENS[f"voice:{name}"].numpy(), atol=2e-5)
    with pytest.raises(ValueError, match="pieces_a_second is 0.5; it must be 0.625 to 100"):
        model.voice(samples, 0.5)
    with pytest.raises(
        ValueError, match=r"bands are \(1, 9, 8\); they must be \(batch, frames, 40"
    ):
        model(rl.zeros(1, 9, 8))


@pytest.mark.native
def test_voices_are_told_apart(
    recordings: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two halves of one voice are more alike than two voices; a longer one is read by pieces."""
    sounds = {name: load(recordings.recording(name)) for name in ("jfk", "beckett")}
    files = []
    for name, sound in sounds.items():
        half = sound.count // 2
        for i, part in enumerate((sound.samples[:half], sound.samples[half:])):
            files.append(tmp_path / f"{name}{i}.wav")
            rl.audio.save(files[-1], part, sound.rate)
    run(["compare-voices", *map(str, files), "--json"])
    result = json.loads(capsys.readouterr().out)
    own, *others = result["similarity"]
    assert own > 0.75 > max(others) and result["same"] == [True, False, False]
    assert np.linalg.norm(result["embeddings"][3]) == pytest.approx(1, abs=1e-6)
    with pytest.raises(ValueError, match="one recording alone"):
        rl.pipeline("speaker-verification", "resemblyzer")([files[0]])
