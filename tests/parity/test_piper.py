"""A voice of Piper: onnxruntime's samples on its own file, with and without noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors

GOLDEN = Path(__file__).parents[1] / "models" / "data" / "voices" / "piper-joe.safetensors"


@pytest.fixture(scope="module")
def voice() -> Any:
    return rl.models.load("piper-joe")


def test_samples_are_onnxruntimes(voice: Any) -> None:
    golden = {name: t.numpy() for name, t in load_safetensors(GOLDEN).items()}
    ids = rl.tensor(golden["ids"][None])

    def noise(seed: int, *shape: int) -> Any:
        return np.random.default_rng(seed).standard_normal(shape, np.float32)

    for name, scale, length, duration in (("still", 0.0, 1.0, 0.0), ("noisy", 0.667, 0.9, 0.8)):
        first = rl.tensor(noise(1, 1, 2, ids.shape[1]) * np.float32(duration))
        with rl.no_grad():
            said = voice.encode(ids, noise=first)
            frames = voice.frames(said.durations.numpy(), 1 / length)
            drawn = noise(2, 1, 192, int(frames.sum())) * np.float32(scale)
            samples = voice.decode(said, frames, rl.tensor(drawn)).numpy()[0]
        assert samples.shape == golden[name].shape
        assert np.abs(samples - golden[name]).max() <= 1e-3


def test_a_known_text_has_the_phonemes_of_the_dictionary(voice: Any) -> None:
    pipe = rl.pipeline("text-to-speech", voice, phonemizer="lexicon")
    speech = pipe("Glue the sheet to the dark blue background.")
    assert speech["phonemes"] == ["ɡlˈuː ðə ʃˈiːt tə ðə dˈɑːɹk blˈuː bˈækɡɹˌaʊnd."]
    assert 1.5 < len(speech["audio"]) / speech["sampling_rate"] < 4
    assert np.abs(speech["audio"]).max() > 0.1
