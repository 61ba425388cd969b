"""Supertonic's four graphs speak as the published loop over onnxruntime does, on every device."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.models.onnx.voice_files import CHUNK, COMPRESSED, DEEP, RATE, write

import rushlight as rl
from rushlight.models.onnx import supertonic

pytestmark = pytest.mark.native

TEXT = "Ça va? Light the 灯 rush."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A voice with random weights."""
    return write(tmp_path_factory.mktemp("supertonic"))


def published(folder: Path, sentence: str, voice: str, speed: float, generator: Any) -> Any:
    """The samples of a sentence by the steps that the published code has."""
    run = {
        name: onnxruntime.InferenceSession(folder / "onnx" / f"{name}.onnx")
        for name in supertonic.GRAPHS
    }
    letters = json.loads((folder / "onnx" / "unicode_indexer.json").read_text())
    style = json.loads((folder / "voice_styles" / f"{voice}.json").read_text())
    ttl, dp = (np.array(style[k]["data"], np.float32) for k in ("style_ttl", "style_dp"))
    text = unicodedata.normalize("NFKD", sentence)
    ids = np.array([[letters[ord(c)] for c in text if ord(c) < 1000]], np.int64)
    mask = np.ones((1, 1, ids.shape[1]), np.float32)
    (seconds,) = run["duration_predictor"].run(
        None, {"text_ids": ids, "style_dp": dp, "text_mask": mask}
    )
    seconds = seconds / speed
    (states,) = run["text_encoder"].run(
        None, {"text_ids": ids, "style_ttl": ttl, "text_mask": mask}
    )
    frames = math.ceil(float(seconds[0]) * RATE / (CHUNK * COMPRESSED))
    x = rl.randn((1, DEEP, frames), generator=generator).numpy()
    for step in range(5):
        (x,) = run["vector_estimator"].run(
            None,
            {
                "noisy_latent": x, "text_emb": states, "style_ttl": ttl, "text_mask": mask,
                "latent_mask": np.ones((1, 1, frames), np.float32),
                "current_step": np.array([step], np.float32),
                "total_step": np.array([5], np.float32),
            },
        )  # fmt: skip
    (sound,) = run["vocoder"].run(None, {"latent": x})
    return np.append(sound[0][: int(seconds[0] * RATE)], np.zeros(int(0.3 * RATE), np.float32))


@pytest.mark.parametrize(("voice", "speed"), [(None, 1.0), ("F1", 1.25)])
def test_it_speaks_as_the_published_code(
    folder: Path, device: str, voice: str | None, speed: float
) -> None:
    speak = rl.pipeline("text-to-speech", folder, device=device)
    value = speak(TEXT, seed=5, speed=speed, speaker_embeddings=voice)
    generator = rl.Generator(5)
    parts = [
        published(folder, sentence, voice or "M1", speed, generator)
        for sentence in ("Ça va?", "Light the 灯 rush.")
    ]
    assert value["sampling_rate"] == RATE and len(value["words"]) == 2
    np.testing.assert_allclose(value["audio"], np.concatenate(parts), rtol=1e-4, atol=1e-5)


def test_who_speaks(folder: Path) -> None:
    speak = rl.pipeline("text-to-speech", folder)
    assert speak.model.voice_names == ["F1", "M1"]
    first = speak("Hi.", speaker=0)["audio"]
    file = folder / "voice_styles" / "F1.json"
    np.testing.assert_array_equal(speak("Hi.", speaker_embeddings=str(file))["audio"], first)
    for options, words in (
        ({"speaker": 2}, "speakers 0 to 1"),
        ({"speaker_embeddings": "Z9"}, "none of F1, M1"),
    ):
        with pytest.raises(ValueError, match=words):
            speak("Hi.", **options)
    with pytest.raises(ValueError, match="no letter of"):
        speak("灯。")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("onnx/tts.json", {"ae": {"sample_rate": 0}}, "ae.sample_rate is 0"),
        ("onnx/tts.json", None, "no onnx/tts.json"),
        ("onnx/unicode_indexer.json", [1.5], "no list of whole numbers"),
        ("voice_styles/M1.json", {"style_ttl": {"dims": [1, 2]}}, "style_ttl.dims"),
        ("voice_styles/M1.json", {"style_ttl": {"dims": [1, 1, 2], "data": [1]}}, "1 x 1 x 2"),
    ],
)
def test_damaged_files_are_named(
    folder: Path, tmp_path: Path, name: str, change: Any, words: str
) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "voice")
    place = tmp_path / "voice" / name
    place.unlink() if change is None else place.write_text(json.dumps(change))
    with pytest.raises((rl.FormatError, rl.LoadError), match=words):
        rl.models.load(tmp_path / "voice")
