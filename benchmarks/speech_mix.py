"""Recordings joined to minutes of speech, with silences and noise between them."""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np
from measure import HERE

import rushlight as rl

sys.path.append(str(HERE.parent / "tests" / "models"))
from recordings import TEXTS, recording

RATE = 16000


def written(path: Path, samples: np.ndarray) -> Path:
    """Write samples as a WAV file of 16 bits at 16 kHz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def voice(name: str) -> np.ndarray:
    """The samples of a recording at 16 kHz, which is all that whisper.cpp reads."""
    audio = rl.audio.load(recording(name))
    samples: np.ndarray = rl.audio.resample(rl.tensor(audio.samples), audio.rate, RATE).numpy()
    return samples


def mixed(path: Path, seconds: float, seed: int = 0) -> str:
    """Write a WAV file of about so many seconds; returns what is said in it.

    Recordings follow each other in a drawn order. After each come 0.3 to 6 s of silence, or, every
    third time, of noise (-50 dB); every fourth recording has such noise in it.
    """
    rng = np.random.default_rng(seed)
    voices = {name: voice(name) for name in TEXTS}
    parts: list[np.ndarray] = []
    said: list[str] = []
    while sum(map(len, parts)) < seconds * RATE:
        for name in rng.permutation(list(TEXTS)):
            number = len(said)
            spoken = voices[str(name)]
            if number % 4 == 3:
                spoken = spoken + rng.normal(0, 0.003, len(spoken)).astype(np.float32)
            gap = np.zeros(int(rng.uniform(0.3, 6) * RATE), np.float32)
            if number % 3 == 2:
                gap = rng.normal(0, 0.003, len(gap)).astype(np.float32)
            parts += [spoken, gap]
            said.append(TEXTS[str(name)])
    written(path, np.concatenate(parts))
    return " ".join(said)
